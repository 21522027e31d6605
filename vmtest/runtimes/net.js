// SPDX-License-Identifier: GPL-2.0

// The Node.js program of scripts/ci runtimes; guest-runtimes has the protocol.
'use strict';
const { once } = require('events');
const dgram = require('dgram');
const net = require('net');

function serve(port) {
	const udp = dgram.createSocket('udp6');

	net.createServer((c) => c.once('data', () => c.end('answer\n'))).listen(port);
	udp.on('message', (data, from) => udp.send(data, from.port, from.address));
	udp.bind(port);
}

function patience() {
	return { signal: AbortSignal.timeout(30000) };
}

async function request(port, host) {
	const c = net.connect({ port, host });

	await once(c, 'connect', patience());
	c.write('GET / HTTP/1.0\r\n\r\n');
	c.resume();
	await once(c, 'close', patience());
}

// exchange(UDP, SEND): SEND(done) calls done(error). Without that, an error would be lost.
async function exchange(udp, send) {
	const answer = once(udp, 'message', patience());

	send((e) => e && udp.emit('error', e));
	await answer;
}

async function connect_udp(port, host) {
	const udp = dgram.createSocket('udp6');

	try {
		await exchange(udp, (done) =>
			udp.connect(port, host, (e) => e ? done(e) : udp.send('x', done)));
	} finally {
		udp.close();
	}
}

async function report(protocol, addr, call, promise) {
	console.log(protocol, addr, call, await promise.then(() => 'ok', (e) => e.message));
}

async function main(port, addrs) {
	// One AF_INET6 socket for peers of both families.
	const udp = dgram.createSocket('udp6');

	for (const addr of addrs) {
		const addr6 = net.isIPv4(addr) ? '::ffff:' + addr : addr;

		await report('tcp', addr, 'connect', request(port, addr));
		await report('tcp', addr, 'connect-AF_INET6', request(port, addr6));
		await report('udp', addr, 'send', exchange(udp, (done) => udp.send('x', port, addr6, done)));
		await report('udp', addr, 'connect', connect_udp(port, addr6));
	}
	udp.close();
}

if (process.argv[2] === 'serve')
	serve(Number(process.argv[3]));
else
	main(Number(process.argv[3]), process.argv.slice(4));
