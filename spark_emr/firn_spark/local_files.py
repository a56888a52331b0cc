"""Local files that Hadoop writes without a process for each.

Hadoop gives each file that it writes its permissions by a process, `chmod`, where its own library in C is not there: of
a small table's commit they are an eighth of all CPU seconds. Java can do it. There is no setting for that, so the class
is made here, by the compiler that Spark has for its own plans; that takes a third of a second.
"""

from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

_NAME: Final = "firn.LocalFiles"
_SOURCE: Final = """
package firn;

public class LocalFiles extends org.apache.hadoop.fs.LocalFileSystem {
    public LocalFiles() { super(new Raw()); }

    public static class Raw extends org.apache.hadoop.fs.RawLocalFileSystem {
        public void setPermission(org.apache.hadoop.fs.Path path,
                org.apache.hadoop.fs.permission.FsPermission asked) throws java.io.IOException {
            if (asked.getStickyBit()) {
                super.setPermission(path, asked);
            } else {
                java.nio.file.Files.setPosixFilePermissions(
                    pathToFile(path).toPath(),
                    java.nio.file.attribute.PosixFilePermissions.fromString(asked.toString()));
            }
        }
    }
}
"""


def without_checksums(session: SparkSession) -> None:
    """Hadoop writes no checksum beside each local file any more, each with a `chmod` of its own. One that is there is
    still checked. Of the process: Hadoop has one file system for all local files."""
    _local(session).setWriteChecksum(False)


def without_processes(session: SparkSession) -> None:
    """Hadoop starts no process for a local file any more, either. Of the process as well, and for who stays for many
    commits. Where there is no such compiler all stays as it was."""
    jvm: Any = session._jvm
    before = _local(session)
    if str(before.getClass().getName()) == _NAME:
        return
    settings = jvm.org.apache.hadoop.conf.Configuration(session._jsc.hadoopConfiguration())
    try:
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(settings.getClassLoader())
        compiler.cook(_SOURCE)
    except (Py4JError, TypeError):  # py4j takes a class that is not there for a package, which can't be called
        return
    settings.setClassLoader(compiler.getClassLoader())
    settings.set("fs.file.impl", _NAME)  # in a copy: whoever makes a file system of his own does not know the class
    before.close()  # no longer the one that all get; who has it may go on with it
    _local(session, settings).setWriteChecksum(False)


def _local(session: SparkSession, settings: Any = None) -> Any:
    jvm: Any = session._jvm
    known = session._jsc.hadoopConfiguration() if settings is None else settings
    return jvm.org.apache.hadoop.fs.FileSystem.get(jvm.java.net.URI("file:///"), known)
