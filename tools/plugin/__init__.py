"""The pytest plugin as users have it: the wheel, in environments of several Pythons."""
