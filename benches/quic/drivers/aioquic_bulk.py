"""Sends or receives bulk data over aioquic with its default configuration.

aioquic_bulk.py server ADDRESS CERT KEY
aioquic_bulk.py client ADDRESS down|up BYTES
"""
import asyncio
import os
import ssl
import sys

from aioquic.asyncio.client import connect
from aioquic.asyncio.server import serve
from aioquic.quic.configuration import QuicConfiguration

ALPN = ["perf"]
BLOCK = bytes(65536)


def configuration(client):
    """Returns a default configuration; a client saves its keys where SSLKEYLOGFILE says."""
    log = os.environ.get("SSLKEYLOGFILE")
    secrets = open(log, "a", encoding="ascii") if client and log else None
    return QuicConfiguration(alpn_protocols=ALPN, is_client=client, verify_mode=ssl.CERT_NONE, secrets_log_file=secrets)


async def fill(writer, size):
    """Writes zeros, and waits whenever a block is queued and not yet sent, so that memory stays bounded."""
    while size > 0:
        writer.write(BLOCK[:size])
        size -= min(size, len(BLOCK))
        await writer.drain()
        while unsent(writer) > 4 * len(BLOCK):
            await asyncio.sleep(0.01)


def unsent(writer):
    """Returns the bytes of a stream that were written and are not acknowledged."""
    transport = writer.transport
    sender = transport.protocol._quic._streams[transport.stream_id].sender
    return len(sender._buffer)


async def drain(reader):
    while await reader.read(65536):
        pass


async def answer(reader, writer):
    size = int.from_bytes(await reader.readexactly(8), "big")
    await drain(reader)
    await fill(writer, size)
    writer.write_eof()


async def server(address, cert, key):
    host, port = address.rsplit(":", 1)
    settings = configuration(False)
    settings.load_cert_chain(cert, key)
    tasks = set()

    def opened(reader, writer):
        task = asyncio.ensure_future(answer(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    await serve(host, int(port), configuration=settings, stream_handler=opened)
    print("ready", flush=True)
    await asyncio.Future()


async def client(address, way, size):
    host, port = address.rsplit(":", 1)
    async with connect(host, int(port), configuration=configuration(True)) as protocol:
        reader, writer = await protocol.create_stream()
        writer.write((int(size) if way == "down" else 0).to_bytes(8, "big"))
        if way == "up":
            await fill(writer, int(size))
        writer.write_eof()
        await drain(reader)


if __name__ == "__main__":
    roles = {("server", 5): server, ("client", 5): client}
    role = roles.get((sys.argv[1] if len(sys.argv) > 1 else "", len(sys.argv)))
    if role is None:
        sys.exit(__doc__)
    asyncio.run(role(*sys.argv[2:]))
