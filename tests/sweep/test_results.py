"""Looking into stored results, laying them out as tables, merging them."""

import csv
import io
import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from click.testing import CliRunner

from replica.cli.main import main
from replica.exceptions import InputError
from replica.sweep import Config, Theory, describe, merge, read, run
from replica.sweep.work import parts_folder

FIXED = {"alpha": 8, "gamma": 1.5, "sigma": 0.3}
KAPPA = [0.3, 0.1, 1.7, 0.9]
RHO = [0.2, 0.5, 0.9]


class Partial(Theory):
    """The theory, but for the values of kappa at which it raises or after which it is interrupted."""

    raises: frozenset[float] = frozenset()
    boxes = math.inf

    def evaluate(self, values: Any) -> xr.Dataset:
        type(self).boxes -= 1
        if self.boxes < 0:
            raise KeyboardInterrupt
        if self.raises & set(values["kappa"].tolist()):
            raise ValueError("too hard")
        return super().evaluate(values)


def stored(path: Path, fixed: dict[str, float] = FIXED, **grid: list[float]) -> Path:
    run(Theory(Config.from_dict({"parameters": fixed, "grid": grid})), path)
    return path


@pytest.fixture
def result(tmp_path: Path) -> Path:
    return stored(tmp_path / "out.nc", kappa=KAPPA, rho=RHO)


@pytest.fixture
def holed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A result in which all points of kappa = 0.1 raised."""
    monkeypatch.setattr(Partial, "raises", frozenset({0.1}))
    run(
        Partial(Config.from_dict({"parameters": FIXED, "grid": {"kappa": KAPPA, "rho": RHO}})),
        tmp_path / "holed.nc",
    )
    return tmp_path / "holed.nc"


def invoke(*arguments: object) -> Any:
    return CliRunner().invoke(main, list(map(str, arguments)))


def test_describe_a_result(result: Path) -> None:
    told = describe(result)
    assert (told["finished"], told["points"], told["states"], told["failures"]) == (True, 12, {"ok": 12}, [])
    assert told["grid"]["kappa"] == {"num": 4, "first": 0.3, "last": 0.9}
    with read(result) as dataset:
        errors = dataset["errors"].sel(protocol="IDG")
        assert told["results"]["errors.IDG"] == {"min": errors.min(), "max": errors.max()}
    assert {"task", "config", "fingerprints", "versions", "seeds", "seconds"} <= set(told)


def test_describe_failures(holed: Path) -> None:
    told = describe(holed)
    assert told["states"] == {"ok": 9, "raised": 3}
    assert told["failures"] == [
        {"kappa": 0.1, "rho": rho, "status": "raised", "reason": "ValueError: too hard"} for rho in RHO
    ]


def test_describe_an_unfinished_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Partial, "boxes", 2)
    task = Partial(Config.from_dict({"parameters": FIXED, "grid": {"kappa": KAPPA, "rho": RHO}}))
    with pytest.raises(KeyboardInterrupt):
        run(task, tmp_path / "out.nc")
    told = describe(tmp_path / "out.nc")
    assert (told["finished"], told["points"], told["states"]) == (False, 12, {"missing": 9, "ok": 3})
    assert told["config"] == task.config.to_dict()
    shown = invoke("show", tmp_path / "out.nc")
    assert shown.exit_code == 0
    assert "out.nc: theory, unfinished\n12 points: 9 missing, 3 ok" in shown.stdout


def test_show_prints_json(holed: Path) -> None:
    told = json.loads(invoke("show", holed, "--format", "json").stdout)
    assert told["states"] == {"ok": 9, "raised": 3}
    assert f"kappa = 0.1, rho = {RHO[0]}: raised (ValueError: too hard)" in invoke("show", holed).stdout


def test_show_refuses_what_is_no_result(tmp_path: Path) -> None:
    done = invoke("show", tmp_path / "lost.nc")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == f"Error: there is no stored result at '{tmp_path / 'lost.nc'}'\n"


def test_export_csv_holds_every_number_exactly(holed: Path) -> None:
    done = invoke("export", holed)
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert [(float(row["kappa"]), float(row["rho"])) for row in rows] == [(k, r) for k in KAPPA for r in RHO]
    with read(holed) as dataset:
        for row in rows:
            point = dataset.sel(kappa=float(row["kappa"]), rho=float(row["rho"]))
            lost = row["kappa"] == "0.1"
            assert row["status"] == ("raised" if lost else "ok")
            assert row["reason"] == ("ValueError: too hard" if lost else "")
            assert row["errors.IDG"] == ("" if lost else repr(point["errors"].sel(protocol="IDG").item()))
            assert float(row["alpha"]) == 8


def test_export_json_is_standard(tmp_path: Path) -> None:
    fixed = {"alpha": math.inf, "gamma": 1.5, "sigma": 0.3}
    path = stored(tmp_path / "out.nc", fixed, rho=[0.5], ridge=[0, 0.1], kappa=[0.4])
    rows = json.loads(invoke("export", path, "--format", "json").stdout, parse_constant=pytest.fail)
    assert [row["status"] for row in rows] == ["ill_posed", "ok"]
    assert [row["alpha"] for row in rows] == ["inf", "inf"]
    assert rows[0]["errors.ODG"] is None
    assert rows[1]["errors.ODG"] > 0


def test_export_writes_large_tables_in_pieces(
    result: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = invoke("export", result).stdout
    monkeypatch.setattr("replica.sweep.table.ROWS", 2)
    assert invoke("export", result, "-o", tmp_path / "out.csv").exit_code == 0
    assert (tmp_path / "out.csv").read_text() == whole
    again = invoke("export", result, "-o", tmp_path / "out.csv")
    assert (again.exit_code, "give --overwrite" in again.stderr) == (2, True)


def test_export_follows_a_coordinate_along_an_axis(tmp_path: Path) -> None:
    path = stored(tmp_path / "out.nc", {"gamma": 1.5, "sigma": 0, "rho": 0.5}, alpha=[1, 2], kappa=[0.4, 0.6])
    rows = list(csv.DictReader(io.StringIO(invoke("export", path).stdout)))
    assert [row["alpha_test"] for row in rows] == ["1.0", "1.0", "2.0", "2.0"]


def test_export_parquet(result: Path, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    assert invoke("export", result, "--format", "parquet", "-o", tmp_path / "out.parquet").exit_code == 0
    made = parquet.read_table(tmp_path / "out.parquet").to_pylist()
    assert [(row["kappa"], row["rho"]) for row in made] == [(k, r) for k in KAPPA for r in RHO]


def test_export_writes_what_the_output_ends_in(result: Path, tmp_path: Path) -> None:
    assert invoke("export", result, "-o", tmp_path / "out.JSON").exit_code == 0
    assert len(json.loads((tmp_path / "out.JSON").read_text())) == len(KAPPA) * len(RHO)
    assert invoke("export", result, "-o", tmp_path / "out.txt").exit_code == 0
    assert (tmp_path / "out.txt").read_text().startswith("kappa,rho,")
    assert invoke("export", result, "-o", tmp_path / "csv.json", "--format", "csv").exit_code == 0
    assert (tmp_path / "csv.json").read_text().startswith("kappa,rho,")


def test_parquet_says_what_it_needs(result: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    done = invoke("export", result, "--format", "parquet", "-o", "out.parquet")
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert "pip install 'replica-icl[parquet]'" in done.stderr
    assert "a parquet table is binary" in invoke("export", result, "--format", "parquet").stderr


def test_merged_grids_share_equal_values(tmp_path: Path) -> None:
    one = stored(tmp_path / "a.nc", kappa=[0.3, 0.1], rho=RHO)
    other = stored(tmp_path / "b.nc", kappa=[0.1, 1.7], rho=RHO)
    outcome = merge(one, other, tmp_path / "c.nc")
    assert outcome.states == {"ok": 9}
    whole = stored(tmp_path / "whole.nc", kappa=[0.3, 0.1, 1.7], rho=RHO)
    with read(tmp_path / "c.nc") as merged, read(whole) as expected:
        xr.testing.assert_equal(merged, expected)
        assert len(json.loads(merged.attrs["config"])["merged"]) == 2
    assert not parts_folder(tmp_path / "c.nc").exists()


def test_ascending_axes_stay_ascending(tmp_path: Path) -> None:
    one = stored(tmp_path / "a.nc", kappa=[0.3, math.inf], rho=RHO)
    other = stored(tmp_path / "b.nc", kappa=[0.1, 1.7], rho=RHO)
    merge(one, other, tmp_path / "c.nc")
    whole = stored(tmp_path / "whole.nc", kappa=[0.1, 0.3, 1.7, math.inf], rho=RHO)
    with read(tmp_path / "c.nc") as merged, read(whole) as expected:
        xr.testing.assert_equal(merged, expected)


def test_points_of_neither_are_missing(tmp_path: Path) -> None:
    one = stored(tmp_path / "a.nc", {"gamma": 1.5, "sigma": 0, "kappa": 1}, alpha=[1.0], rho=[0.2])
    other = stored(tmp_path / "b.nc", {"gamma": 1.5, "sigma": 0, "kappa": 1}, alpha=[2.0], rho=[0.5])
    outcome = merge(one, other, tmp_path / "c.nc")
    assert (outcome.states, outcome.failed) == ({"missing": 2, "ok": 2}, 0)
    with read(tmp_path / "c.nc") as merged:
        assert np.isnan(merged["errors"].sel(alpha=1.0, rho=0.5)).all()
        assert merged["alpha_test"].values.tolist() == [1.0, 2.0]
    told = invoke("merge", one, other, "-o", tmp_path / "d.nc").stderr
    assert told == f"4 points in {tmp_path / 'd.nc'}, 2 of them missing\n"


@pytest.mark.parametrize("order", [1, -1])
def test_an_answer_goes_before_a_failure(order: int, holed: Path, result: Path, tmp_path: Path) -> None:
    outcome = merge(*[holed, result][::order], tmp_path / "c.nc")
    assert outcome.states == {"ok": 12}
    with read(tmp_path / "c.nc") as merged, read(result) as whole:
        xr.testing.assert_equal(merged.drop_vars("reason"), whole)
        assert (merged["reason"] == "").all()


def altered(path: Path, target: Path) -> Path:
    with read(path) as dataset:
        dataset = dataset.load().assign_attrs(history="altered by hand")
    dataset["errors"].loc[{"kappa": 1.7, "rho": 0.5, "protocol": "TM"}] += 1
    dataset.to_netcdf(target, engine="h5netcdf")
    return target


def test_a_conflict_is_named_or_decided(result: Path, tmp_path: Path) -> None:
    other, target = altered(result, tmp_path / "other.nc"), tmp_path / "c.nc"
    with pytest.raises(InputError, match=r"different answers at kappa = 1.7, rho = 0.5; give --prefer"):
        merge(result, other, target)
    assert not target.exists()
    assert not parts_folder(target).exists()
    for prefer, source in (("first", result), ("second", other)):
        assert invoke("merge", result, other, "-o", target, "--prefer", prefer, "--overwrite").exit_code == 0
        with read(target) as merged, read(source) as wanted:
            xr.testing.assert_equal(merged, wanted)


def test_what_is_not_merged(result: Path, tmp_path: Path) -> None:
    target = tmp_path / "c.nc"
    with pytest.raises(InputError, match=r"differ in sigma \(0.3 and 0.\) and are not merged"):
        merge(result, stored(tmp_path / "b.nc", FIXED | {"sigma": 0}, kappa=[1], rho=[1]), target)
    with pytest.raises(InputError, match=r"span different axes, \(kappa, rho\) and \(kappa\), and are not"):
        merge(result, stored(tmp_path / "d.nc", FIXED | {"rho": 1}, kappa=[1]), target)
    with pytest.raises(InputError, match="there is no stored result"):
        merge(result, tmp_path / "lost.nc", target)
    with pytest.raises(InputError, match="exists; give --overwrite"):
        merge(result, result, result)
