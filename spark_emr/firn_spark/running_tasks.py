"""How many of Spark's tasks are done, of the jobs that it has at work."""

from pyspark import SparkContext


def running_tasks() -> float | None:
    """0 to 1; None without a session, or with nothing at work. Starts no session. May raise what py4j raises.

    A stage that is skipped counts as not done: it is only a share.
    """
    context = SparkContext._active_spark_context
    if context is None:
        return None
    tracker = context.statusTracker()
    jobs = (tracker.getJobInfo(job) for job in tracker.getActiveJobsIds())
    stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
    tasks = sum(stage.numTasks for stage in stages if stage is not None)
    return sum(stage.numCompletedTasks for stage in stages if stage is not None) / tasks if tasks else None
