"""PyIceberg's planning of a scan, without what it works out beside the files and then fails at."""

from collections.abc import Callable
from functools import cached_property

from pyiceberg.expressions.visitors import ResidualEvaluator, UnpartitionedResidualEvaluator
from pyiceberg.manifest import DataFile
from pyiceberg.table import DataScan, ManifestGroupPlanner


class FilesScan(DataScan):
    """A scan that is only asked for its files.

    PyIceberg also tells for each file what is left of the filter within its partition, and fails (TypeError, in 0.12)
    where the filter is a comparison and the value of the partition is null. Rows are filtered by the whole filter here.
    """

    @cached_property
    def _manifest_planner(self) -> ManifestGroupPlanner:
        return _Planner(
            table_metadata=self.table_metadata,
            io=self.io,
            row_filter=self.row_filter,
            case_sensitive=self.case_sensitive,
            options=self.options,
        )


class _Planner(ManifestGroupPlanner):
    def _build_residual_evaluator(self, spec_id: int) -> Callable[[DataFile], ResidualEvaluator]:  # noqa: ARG002
        whole = UnpartitionedResidualEvaluator(self.table_metadata.schema(), self.row_filter)
        return lambda _file: whole
