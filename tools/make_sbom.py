"""Writes the bill of materials of a release: what is linked, of which version, under which licence.

    tools/make_sbom.py BUILD FILE      BUILD: build/release; FILE: SBOM.json, in SPDX 2.3

The file tells no time but the commit's (SOURCE_DATE_EPOCH): the same build, the same bytes.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import check_licences
from make_wheel import ROOT, commit_time, release_version

NAMESPACE = "https://spdx.org/spdxdocs/dedloc"


def version_of(package: str) -> str:
    return subprocess.run(["dpkg-query", "-W", "-f", "${Version}", package],
                          stdout=subprocess.PIPE, text=True, check=True).stdout


def entry(name: str, version: str, licence: str, comment: str = "") -> dict[str, object]:
    found = {"SPDXID": f"SPDXRef-{name.replace('+', '-').replace('_', '-')}", "name": name,
             "versionInfo": version, "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
             "licenseConcluded": "NOASSERTION", "licenseDeclared": "NOASSERTION",
             "copyrightText": "NOASSERTION", "licenseComments": licence}
    return {**found, "comment": comment} if comment else found


def document(build: Path) -> dict[str, object]:
    libraries, _ = check_licences.collect(build)
    reviewed = tomllib.loads((ROOT / "tools/licences.toml").read_text(encoding="utf-8"))["reviewed"]
    packages: dict[str, list[str]] = {}
    for library in libraries.values():
        packages.setdefault(library.package, []).append(library.name)
    version = release_version()
    ours = entry("dedloc", version, "MIT")
    ours["licenseDeclared"] = ours["licenseConcluded"] = "MIT"
    entries = [ours]
    for package in sorted(filter(None, packages)):
        licence, _ = check_licences.judge(package, reviewed)
        entries.append(entry(package, version_of(package), licence,
                             "linked: " + ", ".join(sorted(packages[package]))))
    made = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(commit_time()))
    return {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
            "name": f"dedloc-{version}", "documentNamespace": f"{NAMESPACE}-{version}-{made}",
            "creationInfo": {"created": made, "creators": ["Tool: tools/make_sbom.py"]},
            "packages": entries,
            "relationships": [
                {"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES",
                 "relatedSpdxElement": "SPDXRef-dedloc"},
                *({"spdxElementId": "SPDXRef-dedloc", "relationshipType": "DYNAMIC_LINK",
                   "relatedSpdxElement": each["SPDXID"]} for each in entries[1:])]}


def main() -> int:
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    text = json.dumps(document(Path(sys.argv[1])), indent=1, ensure_ascii=False)
    Path(sys.argv[2]).write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
