import pytest

from replica import Status


@pytest.mark.parametrize("status", Status)
def test_every_status_says_what_it_means(status: Status) -> None:
    assert status.advice.endswith(".")
    assert status.label == status.name.lower()


def test_files_name_the_integers() -> None:
    attributes = Status.attributes()
    names = attributes["flag_meanings"].split()
    assert dict(zip(names, attributes["flag_values"].tolist(), strict=True)) == {
        "ok": 0,
        "interpolation_threshold": 1,
        "ill_posed": 2,
        "not_converged": 3,
        "nonfinite": 4,
        "unphysical": 5,
    }
    assert [status.is_answer for status in Status] == [True, True, True, False, False, False]
