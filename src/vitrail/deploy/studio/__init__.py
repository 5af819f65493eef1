"""The studio: a local web page that shows what a model sees. `serve.run_studio` starts it."""
