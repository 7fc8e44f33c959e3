"""Lets plain `gunicorn "app:create_app()"` serve as `countersign serve` does; put your own changes below a copy."""

from cli.served import configuration

globals().update(configuration())
