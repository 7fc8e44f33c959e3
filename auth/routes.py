"""All addresses of this layer on one blueprint."""

from flask import Blueprint

from auth.clients import Clients
from auth.consent import Consents
from auth.device_pages import DevicePages, add_device
from auth.devices import Devices
from auth.events import ClientEvents
from auth.oauth import ConsentPages, add_consent, add_documents, add_machine_endpoints
from auth.operators import Operators
from auth.proofs import Proofs
from auth.server import Server
from auth.sessions import Sessions
from auth.sign_in import SignIn, SignInForms, SignInPages, add_sign_in
from auth.throttle import Throttle
from core.db import Database
from core.ids import Ids
from core.seal import Sealer
from core.settings import Settings
from policy.audit import Audit
from policy.scopes import Scopes


def auth_routes(
    *,
    database: Database,
    ids: Ids,
    sealer: Sealer,
    settings: Settings,
    audit: Audit,
    scopes: Scopes,
    clients: Clients,
    operators: Operators,
    throttle: Throttle,
    sessions: Sessions,
    proofs: Proofs,
    consents: Consents,
    server: Server,
    events: ClientEvents,
    devices: Devices,
) -> Blueprint:
    """Serve `/login`, `/logout`, `/password`, `/device`, `/oauth/*` with their aliases, and `/.well-known/*`."""
    bp = Blueprint("auth", __name__)
    forms = SignInForms(sessions, sealer, ids, settings)
    sign_in = SignIn(database, operators, throttle, audit, settings)
    add_sign_in(bp, SignInPages(sessions, forms, sign_in, operators, proofs))
    add_machine_endpoints(bp, server=server, clients=clients, scopes=scopes, events=events)
    add_documents(bp, settings=settings, scopes=scopes)
    add_consent(bp, ConsentPages(server, consents, sessions, proofs, events))
    add_device(bp, DevicePages(devices, clients, sessions, proofs, throttle, sealer, settings))
    return bp
