"""What a service is started with: settings, keys, the data folder and the log."""
