"""The function app that Azure looks for at the root."""

from azure_function.app import make_app

app = make_app()
