"""A real Kubernetes control plane for the tests."""
