"""Where items come from: folders, stores, sites, feeds, loaders, lists of lines and tables.

Each module has a function that yields items one at a time, and a `Skipped` for what it leaves out
or cannot read. `knowledge_bot.ingest` names the functions, and loads each when it is first used.
"""
