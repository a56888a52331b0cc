"""Why a table is left to Spark."""


class Unfit(Exception):
    """This table's changes are not for the driver: nothing was written, and Spark commits them instead."""
