"""`rkhs map`: from a table to a map with standard deviations and a picture."""

import numpy as np
import pandas as pd
import pytest
from running import facts_of, soundings

import rkhs

xarray = pytest.importorskip("xarray")


def test_a_table_becomes_a_map(folder):
    soundings().to_csv("soundings.csv", index=False)
    facts = facts_of("map soundings.csv --units m --spacing 0.25 --out out/map.nc --picture sea.png")
    assert (facts["points"], facts["values"], facts["x, y"]) == (28, "depth", ["longitude", "latitude"])
    assert facts["coordinates"] == "degrees; distances are in km"
    with xarray.open_dataset("out/map.nc") as chart:
        assert chart["depth"].shape == (facts["cells"]["rows"], facts["cells"]["columns"])
        assert facts["cells"]["empty"] == int(chart["depth"].isnull().sum())
        assert chart["depth"].attrs["units"] == chart["depth_std"].attrs["units"] == "m"
        assert chart["longitude"].attrs["units"] == "degrees_east"
        cells = chart.to_dataframe().dropna().reset_index()
    truth = 100 * np.sin(cells["longitude"]) + 30 * cells["latitude"]
    assert np.sqrt(np.mean((cells["depth"] - truth) ** 2)) < 10
    assert (folder / "sea.png").read_bytes().startswith(b"\x89PNG")


def test_a_plane_a_region_and_a_table_of_cells(folder):
    table = (
        soundings().rename(columns={"longitude": "e", "latitude": "n"}).assign(sd=np.tile([0.1, 10.0], 14), note="a")
    )
    table.loc[3, "depth"] = None
    table.to_csv("plane.csv", index=False)
    options = "--x e --y n --value depth --error sd --region -71/-70/11/12 --spacing 0.5 --reach 2 --out cells.csv"
    facts = facts_of(f"map plane.csv {options} --loss absolute --time-limit 60")
    assert facts["coordinates"].startswith("a plane")
    assert facts["points"] == 27
    assert facts["notes"] == ["There are no standard deviations with --loss absolute."]
    cells = pd.read_csv("cells.csv")
    assert list(cells.columns) == ["e", "n", "depth"]
    assert sorted(set(cells["e"])) == [-71, -70.5, -70]


@pytest.mark.parametrize("true", [pytest.param(True, marks=pytest.mark.slow), False])
def test_errors_that_are_wrong_are_left_out(folder, true):
    rng, table = np.random.default_rng(0), soundings(40)
    error = np.where(np.arange(40) % 2, 1.0, 30.0)
    table["depth"] += error * rng.standard_normal(40)
    table.assign(sd=error if true else error[::-1]).to_csv("errors.csv", index=False)
    facts = facts_of("map errors.csv --value depth --error sd --spacing 1 --out errors.csv.parquet")
    assert [note.startswith("The errors in 'sd' are not used: the mean log") for note in facts["notes"]] == [True] * (
        not true
    )


def test_without_time_for_standard_deviations_and_with_a_wrong_position(folder, monkeypatch):
    def predict(self, X, return_std=False):
        if return_std:
            raise TimeoutError
        return values(self, X)

    values = rkhs.InvariantRegressorCV.predict
    monkeypatch.setattr(rkhs.InvariantRegressorCV, "predict", predict)
    table = soundings()
    table.loc[0, ["longitude", "latitude"]] = 0.0
    table.to_csv("far.csv", index=False)
    facts = facts_of("map far.csv --time-limit 100 --out far.csv.parquet")
    late, far = facts["notes"]
    assert late == "There was no time for standard deviations within --time-limit 100."
    assert far == "A few points are far from all others: if their positions are wrong, give --region."
    assert list(pd.read_parquet("far.csv.parquet").columns) == ["longitude", "latitude", "depth"]
