// Command h3 serves a page over HTTP/3 (quic-go) on which a browser downloads or uploads bulk data.
//
// h3 ADDRESS CERT KEY
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"

	"github.com/quic-go/quic-go/http3"
)

// The path of the page says what it does: /down/BYTES reads as many bytes, /up/BYTES sends them in one body.
const page = `<!doctype html><title>bulk</title><script>
const [, way, bytes] = location.pathname.split("/");
if (way === "down") {
	fetch("/zeros/" + bytes).then(async (answer) => {
		const reader = answer.body.getReader();
		while (!(await reader.read()).done);
	});
} else if (way === "up") {
	const part = new Uint8Array(1 << 20), parts = Array(Math.min(64, Math.ceil(bytes / part.length))).fill(part);
	fetch("/zeros/0", { method: "POST", body: new Blob(parts) });
}
</script>`

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: h3 ADDRESS CERT KEY")
		os.Exit(1)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/zeros/{bytes}", func(answer http.ResponseWriter, request *http.Request) {
		_, _ = io.Copy(io.Discard, request.Body)
		bytes, err := strconv.ParseInt(request.PathValue("bytes"), 10, 63)
		if err != nil {
			http.Error(answer, err.Error(), http.StatusBadRequest)
			return
		}
		answer.Header().Set("Content-Type", "application/octet-stream")
		_, _ = io.CopyN(answer, zeros{}, bytes)
	})
	mux.HandleFunc("/", func(answer http.ResponseWriter, _ *http.Request) {
		answer.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(answer, page)
	})
	server := http3.Server{Addr: os.Args[1], Handler: mux}
	fmt.Println("ready")
	if err := server.ListenAndServeTLS(os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "h3:", err)
		os.Exit(1)
	}
}

type zeros struct{}

func (zeros) Read(into []byte) (int, error) {
	clear(into)
	return len(into), nil
}
