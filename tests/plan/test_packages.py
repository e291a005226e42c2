"""Commands that bring packages: run on repository files as people have them, with the folders of /etc elsewhere."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from changegen.plan.distribution import Template, distribution

KEYS = "signed-by=/etc/apt/keyrings/kubernetes-apt-keyring.gpg"
APT = {
    "sources.list": "deb https://deb.debian.org/debian bookworm main\n",
    "sources.list.d/kubernetes.list": f"deb [{KEYS}] https://pkgs.k8s.io/core:/stable:/v1.36/deb/ /\n",
    "sources.list.d/kubernetes.sources": "Types: deb\nURIs: https://packages.example.com/core/stable/v1.36/deb/\nSuites: /\n",
    "sources.list.d/suse.list": "deb https://packages.example.com/isv:/kubernetes:/core:/stable:/v1.36/deb/ /\n",
    "sources.list.d/cri-o.list": "deb https://pkgs.k8s.io/addons:/cri-o:/stable:/v1.36/deb/ /\n",
    "sources.list.d/both.list": "deb https://pkgs.k8s.io/core:/stable:/v1.36/deb/ /\n"
    "deb https://packages.example.com/isv:/cri-o:/stable:/v1.36/deb/ /\n",
}
DNF = {
    "kubernetes.repo": "[kubernetes]\nbaseurl=https://pkgs.k8s.io/core:/stable:/v1.36/rpm/\n"
    "gpgkey=https://pkgs.k8s.io/core:/stable:/v1.36/rpm/repodata/repomd.xml.key\nexclude=kubelet kubeadm kubectl\n",
    "cri-o.repo": "[cri-o]\nbaseurl=https://packages.example.com/isv:/cri-o:/stable:/v1.36/rpm/\n",
}
HAVE_PACKAGES = [name for name in ("kubeadm", "kubespray", "generic") if distribution(name).packages]


def moved(templates: tuple[Template, ...], etc: Path) -> None:
    """Run the line that turns the repository to another minor, without the rest of its command."""
    (template,) = (item.text for item in templates if "xargs" in item.text)
    line = template.format(minor="1.37", today_minor="1.37").partition(" && ")[0]
    line = line.replace("/etc/", f"{etc}/").replace("sudo ", "")
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("name", HAVE_PACKAGES)
@pytest.mark.parametrize("key", ["kubeadm", "kubelet-back", "kubeadm-back"])
@pytest.mark.parametrize(
    ("family", "folder", "files"), [("debian", "apt", APT), ("redhat", "yum.repos.d", DNF)]
)
def test_only_the_repository_of_kubernetes_is_turned_to_another_minor(
    name: str, key: str, family: str, folder: str, files: dict[str, str], tmp_path: Path
) -> None:
    for file, text in files.items():
        place = tmp_path / folder / file
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
    for _ in range(2):
        moved(distribution(name).packages[key][family], tmp_path)
        for file, text in files.items():
            wanted = re.sub(r"(core:?/stable:?)/v1\.36", r"\1/v1.37", text)
            assert (tmp_path / folder / file).read_text(encoding="utf-8") == wanted
            assert ("v1.36" in wanted) is ("cri-o" in text)


@pytest.mark.parametrize("name", HAVE_PACKAGES)
def test_no_repository_that_is_known_changes_nothing(name: str, tmp_path: Path) -> None:
    for family in ("debian", "redhat"):
        moved(distribution(name).packages["kubeadm"][family], tmp_path)
    assert not list(tmp_path.rglob("*"))


@pytest.mark.parametrize("name", HAVE_PACKAGES)
def test_packages_that_are_held_are_moved_and_held_again(name: str) -> None:
    """dnf 4 and 5 take ``disable_excludes`` as a setting; the option of that name is gone from dnf 5."""
    for key, families in distribution(name).packages.items():
        apt = [item.text for item in families["debian"]]
        named = {word for text in apt if "install" in text for word in re.findall(r"\b(kube\w+)=", text)}
        assert named, key
        assert all("--allow-change-held-packages" in text for text in apt if "install" in text)
        held = apt[-1] if "hold" in apt[-1] else apt[-2]
        assert named == set(held.removeprefix("sudo apt-mark hold ").split()), key
        for text in (item.text for item in families["redhat"] if "dnf " in item.text):
            assert "--setopt=disable_excludes=kubernetes" in text, key
