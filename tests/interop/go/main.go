// A go-libp2p peer that does what it is told on standard input: see tests/interop/README.md.
package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/libp2p/go-libp2p"
	dht "github.com/libp2p/go-libp2p-kad-dht"
	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/relay"
	"github.com/libp2p/go-libp2p/p2p/protocol/ping"
	"github.com/libp2p/go-libp2p/p2p/security/noise"
	libp2ptls "github.com/libp2p/go-libp2p/p2p/security/tls"
	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	"github.com/multiformats/go-multiaddr"
)

const (
	sinkProtocol = "/dedloc-interop/sink/1"
	echoProtocol = "/dedloc-interop/echo/1"
	pourProtocol = "/dedloc-interop/pour/1" // plain bytes until the end, thrown away
	pieceBytes   = 1 << 20
	recordMax    = 4 << 20
	requestMax   = 120 * time.Second
)

// ------------------------------------------------------------------------- records on a stream

func writeRecord(w io.Writer, marker byte, payload []byte) error {
	header := make([]byte, 9, 9+len(payload))
	header[0] = marker
	binary.BigEndian.PutUint64(header[1:], uint64(len(payload)))
	_, err := w.Write(append(header, payload...))
	return err
}

// Nil without an error: the other side has ended.
func readRecord(r io.Reader) ([]byte, error) {
	var header [9]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		return nil, err
	}
	size := binary.BigEndian.Uint64(header[1:])
	if size > recordMax {
		return nil, fmt.Errorf("a record of %d bytes", size)
	}
	payload := make([]byte, size)
	if _, err := io.ReadFull(r, payload); err != nil {
		return nil, err
	}
	if header[0] == 1 {
		if size == 0 {
			return nil, nil
		}
		return nil, fmt.Errorf("the other side failed: %q", payload)
	}
	return payload, nil
}

func serveSink(s network.Stream) {
	defer s.Close()
	r := bufio.NewReaderSize(s, 1<<16)
	hash := sha256.New()
	bytes := 0
	for {
		payload, err := readRecord(r)
		if err != nil {
			s.Reset()
			return
		}
		if payload == nil {
			break
		}
		hash.Write(payload)
		bytes += len(payload)
	}
	sum := hex.EncodeToString(hash.Sum(nil))
	report, _ := json.Marshal(map[string]any{"bytes": bytes, "sha256": sum})
	writeRecord(s, 0, report)
}

func serveEcho(s network.Stream) {
	defer s.Close()
	for {
		payload, err := readRecord(s)
		if err != nil {
			s.Reset()
			return
		}
		if payload == nil {
			return
		}
		if writeRecord(s, 0, payload) != nil {
			s.Reset()
			return
		}
	}
}

func servePour(s network.Stream) {
	defer s.Close()
	io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{s}, make([]byte, pieceBytes))
}

// ------------------------------------------------------------------------------------ requests

type request struct {
	Do      string `json:"do"`
	Address string `json:"address"`
	Peer    string `json:"peer"`
	Bytes   int    `json:"bytes"`
	Count   int    `json:"count"`
}

type program struct {
	host host.Host
	kad  *dht.IpfsDHT
}

func (p *program) connect(ctx context.Context, r request) (map[string]any, error) {
	address, err := multiaddr.NewMultiaddr(r.Address)
	if err != nil {
		return nil, err
	}
	info, err := peer.AddrInfoFromP2pAddr(address)
	if err != nil {
		return nil, err
	}
	if err := p.host.Connect(ctx, *info); err != nil {
		return nil, err
	}
	return map[string]any{"peer": info.ID.String()}, nil
}

func (p *program) ping(ctx context.Context, id peer.ID) (map[string]any, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	result := <-ping.Ping(ctx, p.host, id)
	if result.Error != nil {
		return nil, result.Error
	}
	return map[string]any{"ms": float64(result.RTT.Microseconds()) / 1000}, nil
}

func (p *program) identify(id peer.ID) (map[string]any, error) {
	connections := p.host.Network().ConnsToPeer(id)
	if len(connections) == 0 {
		return nil, errors.New("not connected")
	}
	// Connect() has waited for identify; a connection that was opened to us may not have.
	for tries := 0; tries < 500; tries++ {
		agent, err := p.host.Peerstore().Get(id, "AgentVersion")
		if err != nil {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		protocols, _ := p.host.Peerstore().GetProtocols(id)
		return map[string]any{
			"agent": agent, "protocols": protocols,
			"addresses": p.host.Peerstore().Addrs(id),
			"security":  connections[0].ConnState().Security,
			"muxer":     connections[0].ConnState().StreamMultiplexer,
			"early":     connections[0].ConnState().UsedEarlyMuxerNegotiation,
		}, nil
	}
	return nil, errors.New("identify has not answered")
}

func (p *program) send(ctx context.Context, id peer.ID, bytes int) (map[string]any, error) {
	s, err := p.host.NewStream(ctx, id, sinkProtocol)
	if err != nil {
		return nil, err
	}
	defer s.Reset()
	begun := time.Now()
	piece := make([]byte, pieceBytes)
	rand.Read(piece)
	hash := sha256.New()
	for left := bytes; left > 0; left -= len(piece) {
		piece = piece[:min(left, pieceBytes)]
		piece[0]++
		hash.Write(piece)
		if err := writeRecord(s, 0, piece); err != nil {
			return nil, err
		}
	}
	if err := writeRecord(s, 1, nil); err != nil {
		return nil, err
	}
	report, err := readRecord(s)
	if err != nil {
		return nil, err
	}
	var got struct {
		Bytes  int    `json:"bytes"`
		Sha256 string `json:"sha256"`
	}
	if err := json.Unmarshal(report, &got); err != nil {
		return nil, err
	}
	if got.Sha256 != hex.EncodeToString(hash.Sum(nil)) {
		return nil, errors.New("other bytes arrived than were sent")
	}
	s.Close()
	return map[string]any{"bytes": got.Bytes, "seconds": time.Since(begun).Seconds()}, nil
}

// For ./bench.sh stream: nothing is looked at, the end of the other side says that all arrived.
func (p *program) pour(ctx context.Context, id peer.ID, bytes int) (map[string]any, error) {
	s, err := p.host.NewStream(ctx, id, pourProtocol)
	if err != nil {
		return nil, err
	}
	defer s.Reset()
	piece := make([]byte, pieceBytes)
	rand.Read(piece)
	begun := time.Now()
	for left := bytes; left > 0; left -= pieceBytes {
		if _, err := s.Write(piece[:min(left, pieceBytes)]); err != nil {
			return nil, err
		}
	}
	if err := s.CloseWrite(); err != nil {
		return nil, err
	}
	if _, err := s.Read(piece); err != io.EOF {
		return nil, fmt.Errorf("no end of the other side: %v", err)
	}
	return map[string]any{"bytes": bytes, "seconds": time.Since(begun).Seconds()}, nil
}

// Many at once: none is ended before the last has its echo.
func (p *program) streams(ctx context.Context, id peer.ID, count int) (map[string]any, error) {
	type outcome struct {
		stream network.Stream
		err    error
	}
	outcomes := make(chan outcome, count)
	for i := 0; i < count; i++ {
		go func() {
			s, err := p.host.NewStream(ctx, id, echoProtocol)
			if err == nil {
				err = writeRecord(s, 0, make([]byte, 100))
			}
			if err == nil {
				var echo []byte
				if echo, err = readRecord(s); err == nil && len(echo) != 100 {
					err = errors.New("a short echo")
				}
			}
			outcomes <- outcome{s, err}
		}()
	}
	good := 0
	var failed error
	var streams []network.Stream
	for i := 0; i < count; i++ {
		o := <-outcomes
		if o.err == nil {
			good++
		} else {
			failed = o.err
		}
		if o.stream != nil {
			streams = append(streams, o.stream)
		}
	}
	for _, s := range streams {
		writeRecord(s, 1, nil)
		s.Close()
	}
	if failed != nil {
		return nil, failed
	}
	return map[string]any{"good": good}, nil
}

func (p *program) find(ctx context.Context, id peer.ID) (map[string]any, error) {
	info, err := p.kad.FindPeer(ctx, id)
	if err != nil {
		return nil, err
	}
	return map[string]any{"addresses": info.Addrs}, nil
}

func isRelayed(address multiaddr.Multiaddr) bool {
	return strings.Contains(address.String(), "/p2p-circuit")
}

// How the peer is connected; whoever was dialled may not have finished when the dialler has.
func (p *program) path(id peer.ID) (map[string]any, error) {
	for tries := 0; tries < 500; tries++ {
		connections := p.host.Network().ConnsToPeer(id)
		for _, connection := range connections {
			if !isRelayed(connection.RemoteMultiaddr()) {
				return map[string]any{"path": "direct"}, nil
			}
		}
		if len(connections) > 0 {
			return map[string]any{"path": "relayed"}, nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return nil, errors.New("not connected")
}

func (p *program) serve(r request) (map[string]any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), requestMax)
	defer cancel()
	// Or go-libp2p would open no stream over a relay that limits its circuits.
	ctx = network.WithAllowLimitedConn(ctx, "what is tried here")
	if r.Do == "connect" {
		return p.connect(ctx, r)
	}
	id, err := peer.Decode(r.Peer)
	if err != nil {
		return nil, err
	}
	switch r.Do {
	case "ping":
		return p.ping(ctx, id)
	case "identify":
		return p.identify(id)
	case "send":
		return p.send(ctx, id, r.Bytes)
	case "pour":
		return p.pour(ctx, id, r.Bytes)
	case "streams":
		return p.streams(ctx, id, r.Count)
	case "find":
		return p.find(ctx, id)
	case "path":
		return p.path(id)
	}
	return nil, errors.New("unknown request " + r.Do)
}

// ------------------------------------------------------------------------------------- program

func print(line map[string]any) {
	text, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	os.Stdout.Write(append(text, '\n'))
}

func makeKey(kind string) (crypto.PrivKey, error) {
	kinds := map[string]int{
		"ed25519": crypto.Ed25519, "rsa": crypto.RSA,
		"ecdsa": crypto.ECDSA, "secp256k1": crypto.Secp256k1}
	key, _, err := crypto.GenerateKeyPairWithReader(kinds[kind], 2048, rand.Reader)
	return key, err
}

// Who is hidden listens nowhere and can use relays; with a relay to reserve at it is reached there.
func reachedBy(hidden bool, reserve string) ([]libp2p.Option, error) {
	if reserve == "" && !hidden {
		return []libp2p.Option{
			libp2p.ListenAddrStrings("/ip4/127.0.0.1/tcp/0"), libp2p.DisableRelay()}, nil
	}
	options := []libp2p.Option{libp2p.NoListenAddrs, libp2p.EnableRelay()}
	if reserve == "" {
		return options, nil
	}
	at, err := peer.AddrInfoFromString(reserve)
	if err != nil {
		return nil, err
	}
	return append(options, libp2p.ForceReachabilityPrivate(),
		libp2p.EnableAutoRelayWithStaticRelays([]peer.AddrInfo{*at})), nil
}

func serveAsRelay(h host.Host, limits string) error {
	var options []relay.Option
	switch limits {
	case "":
		return nil
	case "default":
	case "none":
		options = append(options, relay.WithInfiniteLimits())
	default:
		return errors.New("unknown limits " + limits)
	}
	_, err := relay.New(h, options...)
	return err
}

func run() error {
	security := flag.String("security", "", "tls, noise, or empty for both as go-libp2p has them")
	kind := flag.String("key", "ed25519", "ed25519, rsa, ecdsa, secp256k1")
	limits := flag.String("relay", "", "serve as a relay with these limits: none, default")
	hidden := flag.Bool("hidden", false, "listen nowhere")
	reserve := flag.String("reserve", "", "listen nowhere but at that relay")
	flag.Parse()
	key, err := makeKey(*kind)
	if err != nil {
		return err
	}
	options, err := reachedBy(*hidden, *reserve)
	if err != nil {
		return err
	}
	options = append(options,
		libp2p.Identity(key),
		libp2p.NoTransports, libp2p.Transport(tcp.NewTCPTransport),
		libp2p.ResourceManager(&network.NullResourceManager{}))
	switch *security {
	case "tls":
		options = append(options, libp2p.Security(libp2ptls.ID, libp2ptls.New))
	case "noise":
		options = append(options, libp2p.Security(noise.ID, noise.New))
	}
	h, err := libp2p.New(options...)
	if err != nil {
		return err
	}
	defer h.Close()
	if err := serveAsRelay(h, *limits); err != nil {
		return err
	}
	kad, err := dht.New(context.Background(), h, dht.Mode(dht.ModeServer), dht.ProtocolPrefix("/ipfs"))
	if err != nil {
		return err
	}
	defer kad.Close()
	h.SetStreamHandler(sinkProtocol, serveSink)
	h.SetStreamHandler(echoProtocol, serveEcho)
	h.SetStreamHandler(pourProtocol, servePour)
	print(map[string]any{"id": h.ID().String(), "addresses": h.Addrs()})
	p := program{host: h, kad: kad}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var r request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return err
		}
		answer, err := p.serve(r)
		if err != nil {
			answer = map[string]any{"ok": false, "error": err.Error()}
		} else {
			answer["ok"] = true
		}
		print(answer)
	}
	return nil
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
