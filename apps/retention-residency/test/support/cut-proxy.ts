import { once } from 'node:events';
import { type Server, type Socket, connect, createServer } from 'node:net';

/**
 * A way to a server that a test may cut: connections are broken, and new ones refused, until it is mended. `from` is the
 * address that the server sees.
 */
export async function openProxy(target: string, from?: string) {
  const { hostname, port } = new URL(target);
  const sockets = new Set<Socket>();
  let server: Server | undefined;
  let own = 0;
  const mend = async () => {
    server = createServer((client) => {
      const upstream = connect({ port: Number(port), host: hostname, ...(from && { localAddress: from }) });
      for (const socket of [client, upstream]) {
        sockets.add(socket);
        socket.on('error', () => undefined);
        socket.on('close', () => {
          sockets.delete(socket);
          client.destroy();
          upstream.destroy();
        });
      }
      client.pipe(upstream);
      upstream.pipe(client);
    });
    server.listen(own, '127.0.0.1');
    await once(server, 'listening');
    own = (server.address() as { port: number }).port;
  };
  const cut = async () => {
    const closing = server;
    server = undefined;
    if (!closing) return;
    const closed = once(closing, 'close');
    closing.close();
    for (const socket of sockets) socket.destroy();
    await closed;
  };
  await mend();
  return {
    address: `127.0.0.1:${own}`,
    through: (url: string) => {
      const other = new URL(url);
      other.host = `127.0.0.1:${own}`;
      return other.href;
    },
    cut,
    mend,
  };
}
