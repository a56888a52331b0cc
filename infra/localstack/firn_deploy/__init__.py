"""A real deployment on this machine: LocalStack, the EMR Serverless endpoint, `sam build`, `sam deploy`.

`make deploy-local` and `make undeploy-local`; docs/deploy-local.md. Everything is below one folder (.localstack):

    deployment.json   port and name, the mark that the folder is ours
    stack.json        addresses, as `firn --dir .localstack` reads them
    localstack.log emr.log sam.log functions/*.log
    jobs/{run}/       Spark's output
    catalog.db        the Iceberg catalog; the tables' files are in LocalStack's S3, in memory
"""

from firn.errors import FirnError


class DeployError(FirnError):
    """The deployment can't be made, or not be removed. The text says what to do."""
