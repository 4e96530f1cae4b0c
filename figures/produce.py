"""From a name to files: the store behind a figure, its drawing and its caption."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import xarray as xr

from replica.exceptions import InputError
from replica.figures import FIGURES, load
from replica.figures.style import drawing_style, rendered
from replica.sweep import Config, Theory, read, run
from replica.sweep.files import replacing
from replica.sweep.store import ENGINE

FORMS = ("png", "pdf")


def render(name: str, dataset: xr.Dataset, forms: Sequence[str]) -> dict[str, bytes]:
    """Draw a figure from its data: form -> the file's bytes, the same for the same data."""
    with drawing_style():
        figure = load(name).draw(dataset)
        return {form: rendered(figure, form) for form in forms}


def produce(
    name: str,
    folder: Path,
    *,
    config: str | None = None,
    store: Path | None = None,
    forms: Sequence[str] = FORMS,
    overwrite: bool = False,
    say: Callable[[str], None] = lambda message: None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Path]:
    """Make a figure's files in a folder: the drawing in each form, its caption as text, and its store.

    Parameters
    ----------
    name: one of `FIGURES`.
    folder: where the files go; it must exist.
    config: a config by name or path, swept into `NAME.nc` in the folder; the figure's own if left out. A
        figure without one computes what it draws, and takes none.
    store: a stored result to draw instead, which is then left as it is.
    forms: of `FORMS`.
    overwrite: replace files that exist.
    say, progress: as in `replica.sweep.run`.

    Returns
    -------
    The files made, the drawings first.

    Raises
    ------
    InputError: an unknown name or form, a missing folder or a file in the way, before anything runs; or a
        store that lacks what the figure needs.
    """
    if name not in FIGURES:
        raise InputError(f"there is no figure {name!r}; the figures are {', '.join(FIGURES)}")
    for form in forms:
        if form not in FORMS:
            raise InputError(f"the format {form!r} is unknown; allowed are {', '.join(FORMS)}")
    if config is not None and store is not None:
        raise InputError("a figure is drawn from a config or from a store; give one of the two")
    if not folder.is_dir():
        raise InputError(f"the folder {str(folder)!r} of the output does not exist; make it first")
    targets = {form: folder / f"{name}.{form}" for form in (*forms, "txt")}
    for target in targets.values():
        if target.exists() and not overwrite:
            raise InputError(f"the output {str(target)!r} exists; give --overwrite to replace it")

    figure = load(name)
    kept = folder / f"{name}.nc"
    if not hasattr(figure, "CONFIG"):
        if config is not None:
            raise InputError(f"the figure {name} computes what it draws; it takes no config")
        if store is None and kept.exists() and not overwrite:
            raise InputError(f"the output {str(kept)!r} exists; give --overwrite to replace it")
        dataset = _computed(name, kept) if store is None else _kept(name, store)
    else:
        if store is None:
            run(
                Theory(Config.load(config or figure.CONFIG)),
                kept,
                overwrite=overwrite,
                say=say,
                progress=progress,
            )
        with read(store or kept) as opened:
            dataset = figure.data(opened).load()
    made = [kept] if store is None else []
    contents = render(name, dataset, forms) | {"txt": f"{figure.caption(dataset)}\n".encode()}
    for form, target in targets.items():
        with replacing(target) as temporary:
            temporary.write_bytes(contents[form])
    return [*targets.values(), *made]


def _computed(name: str, target: Path) -> xr.Dataset:
    """Compute what a figure draws and keep it in a file."""
    dataset: xr.Dataset = load(name).data().assign_attrs(figure=name)
    with replacing(target) as temporary:
        dataset.to_netcdf(temporary, engine=ENGINE)
    return dataset


def _kept(name: str, path: Path) -> xr.Dataset:
    """What `_computed` left in a file."""
    try:
        dataset = xr.load_dataset(path, engine=ENGINE)
    except (OSError, ValueError):
        raise InputError(f"there is no NetCDF-4 file at {str(path)!r}") from None
    if dataset.attrs.get("figure") != name:
        raise InputError(f"{str(path)!r} does not hold what the figure {name} draws")
    return dataset
