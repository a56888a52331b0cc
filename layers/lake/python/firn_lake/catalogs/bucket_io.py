"""PyIceberg's own FileIO, for buckets that lie in other regions or at other endpoints than the deployment's."""

from typing import TYPE_CHECKING, Final

from pyiceberg.io.pyarrow import PyArrowFileIO

from firn.config.warehouses import on_bucket

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

TOLD: Final = "firn.warehouses"
"""The property that has what the deployment says of them (firn.config.warehouses)."""


class BucketIO(PyArrowFileIO):
    """The same; each bucket is asked in its own region and at its own endpoint."""

    def _initialize_s3_fs(self, netloc: str | None) -> "FileSystem":
        own = on_bucket(netloc or "", self.properties.get(TOLD, ""))
        if own is None:
            return super()._initialize_s3_fs(netloc)
        told = {**self.properties, "s3.region": own.region or self.properties.get("s3.region", "")}
        if own.endpoint:
            told |= {"s3.endpoint": own.endpoint, "s3.force-virtual-addressing": "false"}
        return PyArrowFileIO({name: value for name, value in told.items() if value})._initialize_s3_fs(netloc)
