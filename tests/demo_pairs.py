"""Which catalogs and storages `make demo CATALOG=… STORAGE=…` is run with, and what of them Firn refuses."""

from typing import Final

from firn.config.catalogs import READ_ONLY

CATALOGS: Final = ("sql", "rest", "hive", "nessie")
STORAGES: Final = {
    "file": "a folder",
    "s3": "S3 (moto)",
    "versitygw": "S3 (versitygw)",
    "azure": "Azure (Azurite)",
    "gcs": "Google (fake-gcs-server)",
}
"""Name -> what it is for people, and the server that stands for it here."""
PAIRS: Final = tuple((catalog, storage) for catalog in CATALOGS for storage in STORAGES)


def refusal(catalog: str, storage: str) -> str | None:
    """Why Firn runs no demo there, on any machine; None if every row is to be equal."""
    assert (catalog, storage) in PAIRS, (catalog, storage)
    return READ_ONLY if catalog == "nessie" else None


def table() -> list[str]:
    """The pairs as lines of Markdown: for docs/catalogs.md."""
    heads = ["`CATALOG=`", *(f"{what}: `STORAGE={name}`" for name, what in STORAGES.items())]
    lines = [heads, ["---"] * len(heads)]
    for catalog in CATALOGS:
        said = (
            "every row equal" if refusal(catalog, name) is None else "refused: it is read only" for name in STORAGES
        )
        lines.append([f"`{catalog}`", *said])
    return [f"| {' | '.join(cells)} |" for cells in lines]
