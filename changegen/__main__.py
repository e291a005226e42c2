"""``python -m changegen``."""

import sys

if __name__ == "__main__":
    try:
        from changegen.cli import main

        main()
    except KeyboardInterrupt:  # while modules are imported; later on click tells it
        sys.exit(130)
