// SPDX-License-Identifier: GPL-2.0

// The Java program of scripts/ci runtimes; guest-runtimes has the protocol.
import java.io.IOException;
import java.net.DatagramPacket;
import java.net.DatagramSocket;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;

public class Net {
	static final int PATIENCE = 30000;

	interface Call {
		void run() throws IOException;
	}

	static void serveTCP(ServerSocket listener) {
		try {
			for (;;) {
				try (Socket s = listener.accept()) {
					s.setSoTimeout(PATIENCE);
					s.getInputStream().read(new byte[512]);
					s.getOutputStream().write("answer\n".getBytes());
				}
			}
		} catch (IOException e) {
			e.printStackTrace();
			System.exit(1);
		}
	}

	static void serve(int port) throws IOException {
		ServerSocket listener = new ServerSocket(port);
		DatagramSocket udp = new DatagramSocket(port);

		new Thread(() -> serveTCP(listener)).start();
		for (;;) {
			DatagramPacket p = new DatagramPacket(new byte[512], 512);

			udp.receive(p);
			udp.send(p);
		}
	}

	static void request(Socket s) throws IOException {
		try (s) {
			s.setSoTimeout(PATIENCE);
			s.getOutputStream().write("GET / HTTP/1.0\r\n\r\n".getBytes());
			s.getInputStream().readAllBytes();
		}
	}

	static void exchange(DatagramSocket udp, InetSocketAddress to) throws IOException {
		udp.setSoTimeout(PATIENCE);
		udp.send(new DatagramPacket(new byte[1], 1, to));
		udp.receive(new DatagramPacket(new byte[512], 512));
	}

	static void report(String protocol, String addr, String call, Call run) {
		String result = "ok";

		try {
			run.run();
		} catch (IOException e) {
			result = e.toString();
		}
		System.out.println(protocol + " " + addr + " " + call + " " + result);
	}

	static void connect(InetAddress addr, int port) throws IOException {
		try (DatagramSocket udp = new DatagramSocket()) {
			udp.connect(new InetSocketAddress(addr, port));
			exchange(udp, new InetSocketAddress(addr, port));
		}
	}

	public static void main(String[] args) throws IOException {
		int port = Integer.parseInt(args[1]);

		if (args[0].equals("serve"))
			serve(port);
		// One AF_INET6 socket for peers of both families, bound to ::.
		DatagramSocket udp = new DatagramSocket();

		for (int i = 2; i < args.length; i++) {
			InetAddress addr = InetAddress.getByName(args[i]);

			report("tcp", args[i], "Socket", () -> request(new Socket(addr, port)));
			// The constructor with a local address binds to ::, here.
			report("tcp", args[i], "Socket-bound", () -> request(new Socket(addr, port, null, 0)));
			report("udp", args[i], "connect", () -> connect(addr, port));
			report("udp", args[i], "send", () -> exchange(udp, new InetSocketAddress(addr, port)));
		}
		udp.close();
	}
}
