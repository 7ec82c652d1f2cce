// Command quicgo sends or receives bulk data over quic-go with its default configuration.
//
// quicgo server ADDRESS CERT KEY
// quicgo client ADDRESS down|up BYTES
package main

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/quic-go/quic-go"
)

const alpn = "perf"

func main() {
	var err error
	switch {
	case len(os.Args) == 5 && os.Args[1] == "server":
		err = serve(os.Args[2], os.Args[3], os.Args[4])
	case len(os.Args) == 5 && os.Args[1] == "client":
		err = transfer(os.Args[2], os.Args[3] == "up", os.Args[4])
	default:
		err = fmt.Errorf("usage: quicgo server ADDRESS CERT KEY | client ADDRESS down|up BYTES")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "quicgo:", err)
		os.Exit(1)
	}
}

func keyLog() io.Writer {
	if name := os.Getenv("SSLKEYLOGFILE"); name != "" {
		if file, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err == nil {
			return file
		}
	}
	return nil
}

func serve(address, cert, key string) error {
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return err
	}
	listener, err := quic.ListenAddr(address, &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{alpn}}, nil)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	for {
		connection, err := listener.Accept(context.Background())
		if err != nil {
			return err
		}
		go func() {
			for {
				stream, err := connection.AcceptStream(context.Background())
				if err != nil {
					return
				}
				go answer(stream)
			}
		}()
	}
}

func answer(stream io.ReadWriteCloser) {
	var head [8]byte
	if _, err := io.ReadFull(stream, head[:]); err != nil {
		return
	}
	if _, err := io.Copy(io.Discard, stream); err != nil {
		return
	}
	_, _ = io.CopyN(stream, zeros{}, int64(binary.BigEndian.Uint64(head[:])))
	_ = stream.Close()
}

func transfer(address string, up bool, size string) error {
	bytes, err := strconv.ParseUint(size, 10, 63)
	if err != nil {
		return err
	}
	config := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{alpn}, KeyLogWriter: keyLog()}
	connection, err := quic.DialAddr(context.Background(), address, config, nil)
	if err != nil {
		return err
	}
	stream, err := connection.OpenStreamSync(context.Background())
	if err != nil {
		return err
	}
	var head [8]byte
	if !up {
		binary.BigEndian.PutUint64(head[:], bytes)
	}
	if _, err := stream.Write(head[:]); err != nil {
		return err
	}
	if up {
		if _, err := io.CopyN(stream, zeros{}, int64(bytes)); err != nil {
			return err
		}
	}
	if err := stream.Close(); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, stream); err != nil {
		return err
	}
	return connection.CloseWithError(0, "")
}

type zeros struct{}

func (zeros) Read(into []byte) (int, error) {
	clear(into)
	return len(into), nil
}
