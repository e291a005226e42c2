"""Profiles: found, read strictly, merged along ``extends``, and filled from the command line.

A profile is looked for as a file when its name holds a slash or ends in ``.yaml``, ``.yml`` or ``.json``; else by
its name in every folder of ``$CHANGEGEN_PROFILES`` and then among the shipped ones. ``extends`` is looked for in the
same way, a file relative to the file that names it.

How a child is laid over its parent: a mapping key by key; a value overrides, ``null`` included; a list of named
things by name (an entry of the child is laid over the parent's entry of the same identity, a new one is appended;
where either side has the identity twice, the child's entries stand alone); ``features`` are joined; every other list
overrides. What is the identity of which list stands in ``IDENTITIES``.
"""

from __future__ import annotations

from changegen.profiles.files import IDENTITIES, Issue, find
from changegen.profiles.given import parse_fields, profile_for_target, with_fields, with_target
from changegen.profiles.load import Listed, lint, list_profiles, load
from changegen.profiles.start import json_schema, starting_file

__all__ = [
    "IDENTITIES",
    "Issue",
    "Listed",
    "find",
    "json_schema",
    "lint",
    "list_profiles",
    "load",
    "parse_fields",
    "profile_for_target",
    "starting_file",
    "with_fields",
    "with_target",
]
