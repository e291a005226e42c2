"""Generates the Kubernetes facts that changegen ships."""
