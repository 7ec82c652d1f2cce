/* Sends or receives bulk data over MsQuic with its default settings, except those that permit streams.
 *
 * msquic_bulk server ADDRESS:PORT CERT KEY
 * msquic_bulk client ADDRESS:PORT down|up BYTES
 */
#include <msquic.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK 65536
/* Blocks of a stream that MsQuic holds at a time. */
#define AHEAD 8

static const QUIC_API_TABLE *api;
static HQUIC registration, configuration;
static const QUIC_BUFFER alpn = {4, (uint8_t *)"perf"};
static uint8_t zeros[BLOCK];
static sem_t done;
static QUIC_TLS_SECRETS secrets;

/* State of one stream. */
struct work {
	uint8_t head[8];
	QUIC_BUFFER head_buffer, blocks[AHEAD];
	size_t headed;
	uint64_t left;
	int client, ended;
};

static void fail(const char *what, QUIC_STATUS status)
{
	fprintf(stderr, "msquic_bulk: %s: status 0x%x\n", what, (unsigned)status);
	exit(1);
}

/* Queues one more block of the data to send, the last one with FIN. */
static void next_block(struct work *work, HQUIC stream, size_t slot)
{
	if (work->ended)
		return;
	QUIC_BUFFER *block = &work->blocks[slot];
	block->Buffer = zeros;
	block->Length = work->left < BLOCK ? (uint32_t)work->left : BLOCK;
	work->left -= block->Length;
	work->ended = work->left == 0;
	api->StreamSend(stream, block, 1, work->ended ? QUIC_SEND_FLAG_FIN : QUIC_SEND_FLAG_NONE, block);
}

static void start_sending(struct work *work, HQUIC stream)
{
	for (size_t slot = 0; slot < AHEAD; slot++)
		next_block(work, stream, slot);
}

static QUIC_STATUS on_stream(HQUIC stream, void *context, QUIC_STREAM_EVENT *event)
{
	struct work *work = context;
	switch (event->Type) {
	case QUIC_STREAM_EVENT_RECEIVE:
		for (uint32_t i = 0; !work->client && i < event->RECEIVE.BufferCount; i++) {
			const QUIC_BUFFER *buffer = &event->RECEIVE.Buffers[i];
			for (uint32_t at = 0; at < buffer->Length && work->headed < sizeof work->head; at++)
				work->head[work->headed++] = buffer->Buffer[at];
		}
		break;
	case QUIC_STREAM_EVENT_PEER_SEND_SHUTDOWN:
		if (work->client) {
			sem_post(&done);
			break;
		}
		for (size_t i = 0; i < sizeof work->head; i++)
			work->left = work->left << 8 | work->head[i];
		start_sending(work, stream);
		break;
	case QUIC_STREAM_EVENT_SEND_COMPLETE:
		if (event->SEND_COMPLETE.ClientContext)
			next_block(work, stream, (QUIC_BUFFER *)event->SEND_COMPLETE.ClientContext - work->blocks);
		break;
	case QUIC_STREAM_EVENT_SHUTDOWN_COMPLETE:
		api->StreamClose(stream);
		free(work);
		break;
	default:
		break;
	}
	return QUIC_STATUS_SUCCESS;
}

static QUIC_STATUS on_served(HQUIC connection, void *context, QUIC_CONNECTION_EVENT *event)
{
	(void)context;
	if (event->Type == QUIC_CONNECTION_EVENT_PEER_STREAM_STARTED)
		api->SetCallbackHandler(event->PEER_STREAM_STARTED.Stream, (void *)on_stream, calloc(1, sizeof(struct work)));
	else if (event->Type == QUIC_CONNECTION_EVENT_SHUTDOWN_COMPLETE)
		api->ConnectionClose(connection);
	return QUIC_STATUS_SUCCESS;
}

static QUIC_STATUS on_listener(HQUIC listener, void *context, QUIC_LISTENER_EVENT *event)
{
	(void)listener, (void)context;
	if (event->Type != QUIC_LISTENER_EVENT_NEW_CONNECTION)
		return QUIC_STATUS_SUCCESS;
	api->SetCallbackHandler(event->NEW_CONNECTION.Connection, (void *)on_served, NULL);
	return api->ConnectionSetConfiguration(event->NEW_CONNECTION.Connection, configuration);
}

static void log_secret(FILE *file, const char *label, const uint8_t *secret)
{
	fprintf(file, "%s ", label);
	for (size_t i = 0; i < sizeof secrets.ClientRandom; i++)
		fprintf(file, "%02x", secrets.ClientRandom[i]);
	fputc(' ', file);
	for (size_t i = 0; i < secrets.SecretLength; i++)
		fprintf(file, "%02x", secret[i]);
	fputc('\n', file);
}

/* Appends the connection's secrets to the file that SSLKEYLOGFILE names. */
static void log_secrets(void)
{
	const char *name = getenv("SSLKEYLOGFILE");
	FILE *file = name ? fopen(name, "a") : NULL;
	if (!file)
		return;
	if (secrets.IsSet.ClientHandshakeTrafficSecret)
		log_secret(file, "CLIENT_HANDSHAKE_TRAFFIC_SECRET", secrets.ClientHandshakeTrafficSecret);
	if (secrets.IsSet.ServerHandshakeTrafficSecret)
		log_secret(file, "SERVER_HANDSHAKE_TRAFFIC_SECRET", secrets.ServerHandshakeTrafficSecret);
	if (secrets.IsSet.ClientTrafficSecret0)
		log_secret(file, "CLIENT_TRAFFIC_SECRET_0", secrets.ClientTrafficSecret0);
	if (secrets.IsSet.ServerTrafficSecret0)
		log_secret(file, "SERVER_TRAFFIC_SECRET_0", secrets.ServerTrafficSecret0);
	fclose(file);
}

static QUIC_STATUS on_client(HQUIC connection, void *context, QUIC_CONNECTION_EVENT *event)
{
	struct work *work = context;
	HQUIC stream;
	if (event->Type == QUIC_CONNECTION_EVENT_SHUTDOWN_INITIATED_BY_TRANSPORT)
		fail("connection", event->SHUTDOWN_INITIATED_BY_TRANSPORT.Status);
	if (event->Type != QUIC_CONNECTION_EVENT_CONNECTED)
		return QUIC_STATUS_SUCCESS;
	log_secrets();
	QUIC_STATUS status = api->StreamOpen(connection, QUIC_STREAM_OPEN_FLAG_NONE, on_stream, work, &stream);
	if (QUIC_FAILED(status) || QUIC_FAILED(status = api->StreamStart(stream, QUIC_STREAM_START_FLAG_NONE)))
		fail("stream", status);
	work->head_buffer = (QUIC_BUFFER){sizeof work->head, work->head};
	api->StreamSend(stream, &work->head_buffer, 1, work->ended ? QUIC_SEND_FLAG_FIN : QUIC_SEND_FLAG_NONE, NULL);
	start_sending(work, stream);
	return QUIC_STATUS_SUCCESS;
}

static void open_configuration(const char *cert, const char *key)
{
	QUIC_SETTINGS settings = {0};
	QUIC_CREDENTIAL_CONFIG credentials = {0};
	QUIC_CERTIFICATE_FILE files = {.PrivateKeyFile = key, .CertificateFile = cert};
	settings.PeerBidiStreamCount = 100;
	settings.IsSet.PeerBidiStreamCount = 1;
	QUIC_STATUS status = api->ConfigurationOpen(registration, &alpn, 1, &settings, sizeof settings, NULL, &configuration);
	if (QUIC_FAILED(status))
		fail("configuration", status);
	if (cert) {
		credentials.Type = QUIC_CREDENTIAL_TYPE_CERTIFICATE_FILE;
		credentials.CertificateFile = &files;
	} else {
		credentials.Flags = QUIC_CREDENTIAL_FLAG_CLIENT | QUIC_CREDENTIAL_FLAG_NO_CERTIFICATE_VALIDATION;
	}
	if (QUIC_FAILED(status = api->ConfigurationLoadCredential(configuration, &credentials)))
		fail("credentials", status);
}

static void serve(QUIC_ADDR *address)
{
	HQUIC listener;
	QUIC_STATUS status = api->ListenerOpen(registration, on_listener, NULL, &listener);
	if (QUIC_FAILED(status) || QUIC_FAILED(status = api->ListenerStart(listener, &alpn, 1, address)))
		fail("listener", status);
	puts("ready");
	fflush(stdout);
	for (;;)
		sem_wait(&done);
}

static void transfer(const char *host, uint16_t port, int up, uint64_t bytes)
{
	HQUIC connection;
	struct work *work = calloc(1, sizeof *work);
	work->client = 1;
	work->left = up ? bytes : 0;
	work->ended = !up;
	for (int i = 0; i < 8; i++)
		work->head[i] = up ? 0 : (uint8_t)(bytes >> (56 - 8 * i));
	QUIC_STATUS status = api->ConnectionOpen(registration, on_client, work, &connection);
	if (QUIC_FAILED(status) ||
	    QUIC_FAILED(status = api->SetParam(connection, QUIC_PARAM_CONN_TLS_SECRETS, sizeof secrets, &secrets)) ||
	    QUIC_FAILED(status = api->ConnectionStart(connection, configuration, QUIC_ADDRESS_FAMILY_UNSPEC, host, port)))
		fail("connection", status);
	sem_wait(&done);
}

int main(int count, char **arguments)
{
	QUIC_ADDR address = {0};
	char host[64];
	unsigned port;
	QUIC_STATUS status;
	if (count != 5 || sscanf(arguments[2], "%63[^:]:%u", host, &port) != 2) {
		fputs("usage: msquic_bulk server ADDRESS:PORT CERT KEY | client ADDRESS:PORT down|up BYTES\n", stderr);
		return 1;
	}
	sem_init(&done, 0, 0);
	if (QUIC_FAILED(status = MsQuicOpen2(&api)))
		fail("library", status);
	if (QUIC_FAILED(status = api->RegistrationOpen(NULL, &registration)))
		fail("registration", status);
	int server = !strcmp(arguments[1], "server");
	open_configuration(server ? arguments[3] : NULL, server ? arguments[4] : NULL);
	if (server && QuicAddrFromString(host, (uint16_t)port, &address))
		serve(&address);
	transfer(host, (uint16_t)port, !strcmp(arguments[3], "up"), strtoull(arguments[4], NULL, 10));
	return 0;
}
