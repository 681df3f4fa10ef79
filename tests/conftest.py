"""What every package's tests share."""

from every_test import *  # noqa: F403 - fixtures and hooks are found by their names
from every_test import _no_measuring_of_children, _no_service_of_the_user  # noqa: F401 - as above
