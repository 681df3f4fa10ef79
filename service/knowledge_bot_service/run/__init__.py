"""Starting a service: the command `kbot serve`, `LocalService`, backups, and `--with`."""
