"""Reading a cluster, or a capture of one, into a snapshot."""

from __future__ import annotations

from changegen.collect.build import Options, build_snapshot

__all__ = ["Options", "build_snapshot"]
