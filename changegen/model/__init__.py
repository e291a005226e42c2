"""Frozen types: snapshot, profile, ticket. No I/O."""
