import { once } from 'node:events';
import { type AddressInfo, type Socket, createServer } from 'node:net';
import { expect, test } from '@jest/globals';
import { Listener } from './listener.js';

test('a listener that is stopped while it connects has stopped', async () => {
  const silent = createServer().listen(0, '127.0.0.1');
  await once(silent, 'listening');
  const { port } = silent.address() as AddressInfo;
  const listener = new Listener({
    url: `postgresql://nobody@127.0.0.1:${port}/nothing`,
    channels: {},
    onConnect: () => Promise.reject(new Error('It never connects.')),
  });
  const connecting = once(silent, 'connection') as Promise<[Socket]>;
  listener.start();
  const [socket] = await connecting;
  expect(await listener.stop()).toBeUndefined();
  socket.destroy();
  silent.close();
  await once(silent, 'close');
});
