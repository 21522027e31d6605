// SPDX-License-Identifier: GPL-2.0

// The Go program of scripts/ci runtimes; guest-runtimes has the protocol.
package main

import (
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"time"
)

const patience = 30 * time.Second

func serveTCP(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			log.Fatal(err)
		}
		go func() {
			c.Read(make([]byte, 512))
			c.Write([]byte("answer\n"))
			c.Close()
		}()
	}
}

func serveUDP(pc net.PacketConn) {
	buf := make([]byte, 512)
	for {
		n, from, err := pc.ReadFrom(buf)
		if err != nil {
			log.Fatal(err)
		}
		if _, err := pc.WriteTo(buf[:n], from); err != nil {
			log.Print(err)
		}
	}
}

func serve(port string) {
	l, err := net.Listen("tcp", ":"+port)
	if err != nil {
		log.Fatal(err)
	}
	pc, err := net.ListenPacket("udp", ":"+port)
	if err != nil {
		log.Fatal(err)
	}
	go serveTCP(l)
	serveUDP(pc)
}

func report(protocol, call, addr string, err error) {
	if err == nil {
		fmt.Println(protocol, addr, call, "ok")
	} else {
		fmt.Println(protocol, addr, call, err)
	}
}

func dialTCP(addr, port string) error {
	c, err := net.DialTimeout("tcp", net.JoinHostPort(addr, port), patience)
	if err != nil {
		return err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	fmt.Fprint(c, "GET / HTTP/1.0\r\n\r\n")
	_, err = io.ReadAll(c)
	return err
}

func dialUDP(addr, port string) error {
	c, err := net.Dial("udp", net.JoinHostPort(addr, port))
	if err != nil {
		return err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	if _, err := c.Write([]byte("x")); err != nil {
		return err
	}
	_, err = c.Read(make([]byte, 512))
	return err
}

func sendUDP(pc net.PacketConn, addr, port string) error {
	to, err := net.ResolveUDPAddr("udp", net.JoinHostPort(addr, port))
	if err != nil {
		return err
	}
	pc.SetDeadline(time.Now().Add(patience))
	if _, err := pc.WriteTo([]byte("x"), to); err != nil {
		return err
	}
	_, _, err = pc.ReadFrom(make([]byte, 512))
	return err
}

func main() {
	port := os.Args[2]
	if os.Args[1] == "serve" {
		serve(port)
	}
	// One AF_INET6 socket for peers of both families.
	pc, err := net.ListenPacket("udp", ":0")
	for _, addr := range os.Args[3:] {
		report("tcp", "Dial", addr, dialTCP(addr, port))
		report("udp", "Dial", addr, dialUDP(addr, port))
		if err == nil {
			report("udp", "WriteTo", addr, sendUDP(pc, addr, port))
		} else {
			report("udp", "ListenPacket", addr, err)
		}
	}
}
