// A js-libp2p peer that does what it is told on standard input: see tests/interop/README.md.
import { createHash, randomBytes } from 'node:crypto'
import { createInterface } from 'node:readline'

// Some packages ask for Node 22 only because of this.
Promise.withResolvers ??= function () {
  let resolve, reject
  const promise = new this((yes, no) => { resolve = yes; reject = no })
  return { promise, resolve, reject }
}

const { createLibp2p } = await import('libp2p')
const { tcp } = await import('@libp2p/tcp')
const { noise } = await import('@chainsafe/libp2p-noise')
const { tls } = await import('@libp2p/tls')
const { yamux } = await import('@chainsafe/libp2p-yamux')
const { identify } = await import('@libp2p/identify')
const { ping } = await import('@libp2p/ping')
const { circuitRelayServer, circuitRelayTransport } = await import('@libp2p/circuit-relay-v2')
const { kadDHT, passthroughMapper } = await import('@libp2p/kad-dht')
const { generateKeyPair } = await import('@libp2p/crypto/keys')
const { peerIdFromString } = await import('@libp2p/peer-id')
const { multiaddr } = await import('@multiformats/multiaddr')

const SINK = '/dedloc-interop/sink/1'
const ECHO = '/dedloc-interop/echo/1'
const PING = '/ipfs/ping/1.0.0'
const PIECE = 1 << 20
const RECORD_MAX = 4 << 20
const REQUEST_MAX_MS = 120_000
// Limited: through a relay that limits its circuits.
const STREAMS = {
  maxInboundStreams: 4096, maxOutboundStreams: 4096, runOnLimitedConnection: true
}

// ---------------------------------------------------------------------- records on a stream

// A size, a kind and a payload; null is the end of what the other side has to say.
async function * records (stream) {
  let pieces = []
  let have = 0
  let want = 9
  let header = null
  for await (const chunk of stream) {
    pieces.push(chunk.subarray())
    have += chunk.byteLength
    while (have >= want) {
      let all = pieces.length === 1 ? pieces[0] : Buffer.concat(pieces)
      const part = Buffer.from(all.buffer, all.byteOffset, want)
      all = all.subarray(want)
      pieces = [all]
      have -= want
      if (header == null) {
        header = { kind: part[0], size: Number(part.readBigUInt64BE(1)) }
        if (header.size > RECORD_MAX) throw new Error(`a record of ${header.size} bytes`)
        want = header.size
      } else {
        if (header.kind === 1 && header.size === 0) return
        if (header.kind === 1) throw new Error(`the other side failed: ${part.toString()}`)
        header = null
        want = 9
        yield part
      }
    }
  }
}

async function write (stream, kind, payload) {
  const header = Buffer.alloc(9)
  header[0] = kind
  header.writeBigUInt64BE(BigInt(payload.length), 1)
  stream.send(header)
  if (payload.length > 0 && !stream.send(payload)) {
    await stream.onDrain({ signal: AbortSignal.timeout(REQUEST_MAX_MS) })
  }
}

async function serveSink (stream) {
  const hash = createHash('sha256')
  let bytes = 0
  for await (const payload of records(stream)) {
    hash.update(payload)
    bytes += payload.length
  }
  await write(stream, 0, Buffer.from(JSON.stringify({ bytes, sha256: hash.digest('hex') })))
  await stream.close()
}

async function serveEcho (stream) {
  for await (const payload of records(stream)) await write(stream, 0, payload)
  await stream.close()
}

const guarded = (serve) => async (stream) => {
  try {
    await serve(stream)
  } catch (error) {
    stream.abort(error)
  }
}

// ------------------------------------------------------------------------------------ requests

const isRelayed = (address) => address.toString().includes('/p2p-circuit')
const openConnections = (node, id) =>
  node.getConnections(id).filter(({ status }) => status === 'open')

// dialProtocol() would rather dial anew than open a stream on a connection over a limiting relay.
async function openStream (node, peer, protocol) {
  const id = peerIdFromString(peer)
  const connection = openConnections(node, id)[0] ?? await node.dial(id)
  return await connection.newStream(protocol, STREAMS)
}

// As the ping service does it, which, too, would dial anew.
async function pingRelayed (node, peer) {
  const stream = await openStream(node, peer, PING)
  const begun = performance.now()
  const sent = randomBytes(32)
  stream.send(sent)
  const got = []
  for await (const chunk of stream) {
    got.push(chunk.subarray())
    if (Buffer.concat(got).length >= sent.length) break
  }
  if (!Buffer.concat(got).equals(sent)) throw new Error('other bytes came back')
  await stream.close()
  return performance.now() - begun
}

// How the peer is connected; whoever was dialled may not have finished when the dialler has.
async function path (node, peer) {
  for (let tries = 0; tries < 500; tries++) {
    const connections = openConnections(node, peerIdFromString(peer))
    if (connections.some(({ remoteAddr }) => !isRelayed(remoteAddr))) return 'direct'
    if (connections.length > 0) return 'relayed'
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
  throw new Error('not connected')
}

const requests = {
  async connect (node, { address }) {
    const connection = await node.dial(multiaddr(address))
    return { peer: connection.remotePeer.toString() }
  },
  async ping (node, { peer }) {
    const id = peerIdFromString(peer)
    if (openConnections(node, id).some(({ remoteAddr }) => isRelayed(remoteAddr))) {
      return { ms: await pingRelayed(node, peer) }
    }
    return { ms: await node.services.ping.ping(id) }
  },
  async path (node, { peer }) {
    return { path: await path(node, peer) }
  },
  async identify (node, { peer }) {
    const id = peerIdFromString(peer)
    for (let tries = 0; tries < 500; tries++) {
      const known = await node.peerStore.get(id).catch(() => null)
      const agent = known?.metadata.get('AgentVersion')
      if (agent != null) {
        const [connection] = node.getConnections(id)
        return {
          agent: Buffer.from(agent).toString(),
          protocols: known.protocols,
          addresses: known.addresses.map(({ multiaddr }) => multiaddr.toString()),
          security: connection?.encryption,
          muxer: connection?.multiplexer
        }
      }
      await new Promise((resolve) => setTimeout(resolve, 10))
    }
    throw new Error('identify has not answered')
  },
  async send (node, { peer, bytes }) {
    const stream = await openStream(node, peer, SINK)
    const begun = performance.now()
    const hash = createHash('sha256')
    for (let left = bytes; left > 0;) {
      const piece = randomBytes(Math.min(left, PIECE))
      hash.update(piece)
      await write(stream, 0, piece)
      left -= piece.length
    }
    await write(stream, 1, Buffer.alloc(0))
    let report = null
    for await (const payload of records(stream)) {
      report = JSON.parse(payload.toString())
      break
    }
    await stream.close()
    if (report?.sha256 !== hash.digest('hex')) throw new Error('other bytes arrived than were sent')
    return { bytes: report.bytes, seconds: (performance.now() - begun) / 1000 }
  },
  // Many at once: none is ended before the last has its echo.
  async streams (node, { peer, count }) {
    const streams = await Promise.all(Array.from({ length: count }, async () => {
      const stream = await openStream(node, peer, ECHO)
      await write(stream, 0, Buffer.alloc(100))
      const { value } = await records(stream)[Symbol.asyncIterator]().next()
      if (value?.length !== 100) throw new Error('no echo, or a short one')
      return stream
    }))
    for (const stream of streams) stream.abort(new Error('done'))
    return { good: streams.length }
  },
  async find (node, { peer }) {
    const signal = AbortSignal.timeout(REQUEST_MAX_MS)
    const options = { signal, useCache: false }
    const info = await node.peerRouting.findPeer(peerIdFromString(peer), options)
    return { addresses: info.multiaddrs.map((address) => address.toString()) }
  }
}

// ------------------------------------------------------------------------------------- program

const argument = (name, otherwise) => {
  const at = process.argv.indexOf(`--${name}`)
  return at < 0 ? otherwise : process.argv[at + 1]
}

const keyTypes = { ed25519: 'Ed25519', rsa: 'RSA', ecdsa: 'ECDSA', secp256k1: 'secp256k1' }
const keyType = keyTypes[argument('key', 'ed25519')]
const privateKey = await generateKeyPair(keyType, keyType === 'RSA' ? 2048 : undefined)
const security = { tls: [tls()], noise: [noise()], '': [noise(), tls()] }[argument('security', '')]

// Who is hidden listens nowhere; with a relay to reserve at it is reached there.
const reserve = argument('reserve', '')
const isHidden = process.argv.includes('--hidden') || reserve !== ''
const listen = isHidden ? [] : ['/ip4/127.0.0.1/tcp/0']
if (reserve !== '') listen.push(`${reserve}/p2p-circuit`)

const limits = argument('relay', '') // "none", "default"
const relay = circuitRelayServer({ reservations: { applyDefaultLimit: limits !== 'none' } })

const node = await createLibp2p({
  privateKey,
  addresses: { listen },
  transports: isHidden ? [tcp(), circuitRelayTransport()] : [tcp()],
  connectionEncrypters: security,
  streamMuxers: [yamux(STREAMS)],
  connectionManager: { inboundConnectionThreshold: 1000 },
  connectionMonitor: { enabled: false }, // it pings, too, and only one ping may run at a time
  connectionGater: { denyDialMultiaddr: () => false },
  services: {
    identify: identify(),
    ping: ping({ maxInboundStreams: 8, maxOutboundStreams: 8 }),
    dht: kadDHT({
      protocol: '/ipfs/kad/1.0.0',
      clientMode: false,
      peerInfoMapper: passthroughMapper
    }),
    ...(limits !== '' && { relay })
  }
})
await node.handle(SINK, guarded(serveSink), STREAMS)
await node.handle(ECHO, guarded(serveEcho), STREAMS)

const print = (line) => process.stdout.write(JSON.stringify(line) + '\n')
print({
  id: node.peerId.toString(),
  addresses: node.getMultiaddrs().map((address) => address.toString().replace(/\/p2p\/[^/]+$/, ''))
})
for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line)
  try {
    const serve = requests[request.do]
    if (serve == null) throw new Error(`unknown request ${request.do}`)
    print({ ok: true, ...await serve(node, request) })
  } catch (error) {
    print({ ok: false, error: `${error?.message ?? error}` })
  }
}
await node.stop()
process.exit(0)
