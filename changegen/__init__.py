"""changegen: forecast a Kubernetes upgrade, write its change ticket, verify it afterwards.

Nothing is imported here, so that ``changegen --help`` stays as fast as click itself.
"""

__version__ = "0.1.0"
