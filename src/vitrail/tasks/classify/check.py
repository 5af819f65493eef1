"""What `vitrail check` looks at where images have classes."""

from vitrail.tasks.data_check import ImageCheck


class ClassCheck(ImageCheck):
    read_once = True
    balances = True


CHECK = ClassCheck()
