"""Check the conda recipe: it agrees with pyproject.toml, and rattler-build makes a package with the files of the wheel.

Where this runs there may be no conda channel.  Python, pip and setuptools of the build therefore come from a channel of
stand-ins, which call a virtual environment; what conda would install beside the package is not tested.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path
from typing import Any
from zipfile import ZipFile

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def check_recipe(wheel: Path) -> None:
    """Compare the recipe with pyproject.toml, build it, and compare the package with the wheel."""
    import rattler_build

    with tempfile.TemporaryDirectory() as place:
        recipe = rattler_build.Stage0Recipe.from_file(sources(Path(place)))
        (variant,) = recipe.render(rattler_build.VariantConfig())
        check_agreement(variant.recipe.to_dict())
        os.environ["RATTLER_CACHE_DIR"] = f"{place}/cache"  # stand-ins must not get into the cache of real packages
        options = rattler_build.ToolConfiguration(test_strategy="skip")
        result = variant.run_build(options, output_dir=Path(place) / "out", channels=[channel(Path(place))])
        package = rattler_build.Package.from_file(result.packages[0])
        found = {name.removeprefix("site-packages/") for name in package.files}
        missing = {name for name in ZipFile(wheel).namelist() if ".dist-info/" not in name} - found
        assert not missing, f"The conda package lacks {sorted(missing)}."
        print(f"{package.filename} has the files and the {len(package.depends)} dependencies of the wheel")


def check_agreement(recipe: dict[str, Any]) -> None:
    """Check that the recipe states the version, the dependencies and the command of pyproject.toml."""
    project = PROJECT["project"]
    wanted = {f"python{project['requires-python']}", *project["dependencies"]}
    found = {line.replace(" ", "") for line in recipe["requirements"]["run"]}
    assert found == wanted, f"The recipe needs {sorted(found)}, pyproject.toml {sorted(wanted)}."
    builders = {line.replace(" ", "") for line in recipe["requirements"]["host"]}
    assert set(PROJECT["build-system"]["requires"]) <= builders, builders
    assert recipe["package"]["version"] == project["version"], recipe["package"]
    commands = {f"{name} = {target}" for name, target in project["scripts"].items()}
    assert set(recipe["build"]["python"]["entry_points"]) == commands


def sources(place: Path) -> Path:
    """Copy the files that git knows; return the path of the recipe among them."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "src", "recipe", "*.*", "LICENSE"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).exists() and name.partition("/")[0] in {name, "src", "recipe"}:
            (place / "source" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, place / "source" / name)
    return place / "source" / "recipe" / "recipe.yaml"


def channel(place: Path) -> str:
    """Make a channel with stand-ins for Python, pip and setuptools; return its address."""
    import rattler_build

    venv.create(place / "builder", with_pip=True)
    builder = place / "builder" / "bin" / "python"
    subprocess.run([builder, "-m", "pip", "install", "--quiet", *PROJECT["build-system"]["requires"]], check=True)
    launcher = place / "python" / "bin" / "python"
    launcher.parent.mkdir(parents=True)
    launcher.write_text(f'#!/bin/sh\nPIP_PREFIX=$(dirname "$0")/.. exec {builder} "$@"\n')
    launcher.chmod(0o755)
    folder, packages = place / "channel" / "noarch", {}
    for name, version in (("python", "{}.{}".format(*sys.version_info)), ("pip", "99"), ("setuptools", "99")):
        files = launcher.parents[1] if name == "python" else None
        made = rattler_build.assemble_package(name, version, "noarch", "0", folder, files_dir=files, noarch="generic")
        entry = {"name": name, "version": version, "build": "0", "build_number": 0, "depends": []}
        packages[Path(made.path).name] = entry | {"subdir": "noarch", "noarch": "generic"}
    (folder / "repodata.json").write_text(json.dumps({"info": {}, "packages.conda": packages}))
    return folder.parent.as_uri()


if __name__ == "__main__":
    check_recipe(Path(sys.argv[1]).resolve())
