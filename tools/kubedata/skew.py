"""The skew rules of Kubernetes, as the version skew policy states them.

No code of a release holds all of them. Where kubeadm compiles one in (its oldest kubelet and control plane), a test
holds it against these.
"""

from __future__ import annotations

SOURCE = "version skew policy"

RULES: tuple[dict[str, object], ...] = (
    {
        "component": "kube-apiserver",
        "against": "kube-apiserver",
        "older": 1,
        "newer": 1,
        "peers": True,
        "source": SOURCE,
    },
    {"component": "kube-controller-manager", "against": "kube-apiserver", "older": 1, "source": SOURCE},
    {"component": "kube-scheduler", "against": "kube-apiserver", "older": 1, "source": SOURCE},
    {"component": "cloud-controller-manager", "against": "kube-apiserver", "older": 1, "source": SOURCE},
    {"component": "kubelet", "against": "kube-apiserver", "older": 3, "source": SOURCE},
    {"component": "kube-proxy", "against": "kube-apiserver", "older": 3, "source": SOURCE},
    {"component": "kube-proxy", "against": "kubelet", "older": 3, "newer": 3, "source": SOURCE},
    {"component": "kubectl", "against": "kube-apiserver", "older": 1, "newer": 1, "source": SOURCE},
)
