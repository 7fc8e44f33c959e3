"""The pages of the documentation, as they are written."""

from flask import Blueprint, Response

from auth.sessions import Sessions
from core.documents import Documents
from core.errors import NotFound
from web.rendering import Pages


def documents_routes(*, pages: Pages, sessions: Sessions, documents: Documents) -> Blueprint:
    """Serve `/docs/<name>`, to which the results of `search` lead."""
    bp = Blueprint("documents", __name__)

    @bp.get("/docs/<name>")
    @sessions.required
    def document(name: str) -> Response:
        found = documents.find(name)
        if found is None:
            raise NotFound
        return pages.page("console/document.html", nav="", document=found)

    return bp
