"""From names to files: the stores behind figures, their drawings and their captions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import xarray as xr

from replica.exceptions import InputError
from replica.figures import FIGURES, load
from replica.figures.style import drawing_style, rendered
from replica.sweep import Config, Task, read, run
from replica.sweep.files import replacing
from replica.sweep.store import ENGINE

FORMS = ("png", "pdf")


def render(name: str, drawn: Any, forms: Sequence[str]) -> dict[str, bytes]:
    """Draw a figure from its data: form -> the file's bytes, the same for the same data."""
    with drawing_style():
        figure = load(name).draw(drawn)
        return {form: rendered(figure, form) for form in forms}


def tasks(name: str, configs: Sequence[str] = (), *, quick: bool = False) -> dict[str, Task]:
    """What the stores of a figure are made by: name of the store -> task.

    Parameters
    ----------
    name: one of `FIGURES`.
    configs: configs by name or path in place of the figure's own, in the order in which it names them.
    quick: take the quick variant of each config.

    Raises
    ------
    InputError: a wrong number of configs, or one that cannot be used.
    """
    stores = getattr(load(name), "STORES", {})
    own = list(dict.fromkeys(config for config, _ in stores.values()))
    if configs and len(configs) != len(own):
        takes = f"configs in place of {', '.join(own)}" if own else "no config, it computes what it draws"
        raise InputError(f"{len(configs)} configs are given; the figure {name} takes {takes}")
    loaded = {
        config: Config.load(given, quick=quick) for config, given in zip(own, configs or own, strict=True)
    }
    return {store: task(loaded[config]) for store, (config, task) in stores.items()}


def produce(
    names: Sequence[str],
    folder: Path,
    *,
    configs: Sequence[str] = (),
    stores: Sequence[Path] = (),
    forms: Sequence[str] = FORMS,
    quick: bool = False,
    overwrite: bool = False,
    say: Callable[[str], None] = lambda message: None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Path]:
    """Make the files of figures in a folder: drawings in each form, captions as text, and stores.

    Parameters
    ----------
    names: of `FIGURES`.
    folder: where the files go; made if it is missing.
    configs: for one figure, configs in place of its own, as for `tasks`.
    stores: for one figure, stored results to draw instead, which are then left as they are.
    forms: of `FORMS`.
    quick: coarser grids, fewer repeats and smaller D, as each config says in its table `quick`.
    overwrite: replace files that exist.
    say, progress: as in `replica.sweep.run`.

    Returns
    -------
    The files made, figure by figure, the drawings first.

    Raises
    ------
    InputError: an unknown name or form, a folder that cannot be made, a config that cannot be used or a
        file in the way, before anything runs; or a store that lacks what its figure needs.
    """
    for name in names:
        if name not in FIGURES:
            raise InputError(f"there is no figure {name!r}; the figures are {', '.join(FIGURES)}")
    for form in forms:
        if form not in FORMS:
            raise InputError(f"the format {form!r} is unknown; allowed are {', '.join(FORMS)}")
    if configs and stores:
        raise InputError("a figure is drawn from configs or from stores; give one of the two")
    if len(names) > 1 and (configs or stores):
        raise InputError("configs and stores belong to one figure; name that figure")
    planned = {name: tasks(name, configs, quick=quick) for name in names}
    for name, sweeps in planned.items():
        # A sweep goes on from a store of its own and guards any other.
        computed = [] if sweeps or stores else ["nc"]
        for target in (folder / f"{name}.{form}" for form in (*forms, "txt", *computed)):
            if target.exists() and not overwrite:
                raise InputError(f"the output {str(target)!r} exists; give --overwrite to replace it")

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"the folder {str(folder)!r} of the output cannot be made: {error.strerror}"
        ) from None
    made = []
    for name, sweeps in planned.items():
        with ExitStack() as opened:
            if stores:
                sources = list(stores)
            elif sweeps:
                sources = [folder / f"{store}.nc" for store in sweeps]
                for path, task in zip(sources, sweeps.values(), strict=True):
                    say(f"{name}: {path.name}")
                    run(task, path, overwrite=overwrite, say=say, progress=progress)
            else:
                say(name)
                sources = [_computed(name, folder / f"{name}.nc", quick)]
            drawn = _drawn(name, sources, opened)
            contents = render(name, drawn, forms)
            contents["txt"] = f"{load(name).caption(drawn)}\n".encode()
        for form, content in contents.items():
            target = folder / f"{name}.{form}"
            with replacing(target) as temporary:
                temporary.write_bytes(content)
            made.append(target)
        made += [] if stores else sources
    return made


def _drawn(name: str, paths: Sequence[Path], opened: ExitStack) -> Any:
    """What a figure draws, from its stores."""
    figure = load(name)
    if not hasattr(figure, "STORES"):
        if len(paths) != 1:
            raise InputError(f"{len(paths)} stores are given; the figure {name} takes one")
        return _kept(name, paths[0])
    if len(paths) != len(figure.STORES):
        raise InputError(
            f"{len(paths)} stores are given; the figure {name} takes {len(figure.STORES)}: "
            f"{', '.join(figure.STORES)}"
        )
    return figure.data(*[opened.enter_context(read(path)) for path in paths])


def _computed(name: str, target: Path, quick: bool) -> Path:
    """Compute what a figure without stores draws, and keep it in a file."""
    dataset: xr.Dataset = load(name).data(quick=quick).assign_attrs(figure=name)
    with replacing(target) as temporary:
        dataset.to_netcdf(temporary, engine=ENGINE)
    return target


def _kept(name: str, path: Path) -> xr.Dataset:
    """What `_computed` left in a file."""
    try:
        dataset = xr.load_dataset(path, engine=ENGINE)
    except (OSError, ValueError):
        raise InputError(f"there is no NetCDF-4 file at {str(path)!r}") from None
    if dataset.attrs.get("figure") != name:
        raise InputError(f"{str(path)!r} does not hold what the figure {name} draws")
    return dataset
