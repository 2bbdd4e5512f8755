import { once } from 'node:events';
import { type AddressInfo, type Socket, createServer } from 'node:net';
import { expect, test } from '@jest/globals';
import { createTestDatabase } from 'local-stack/testing';
import pg from 'pg';
import { Listener } from '../src/platform/listener.js';
import { until } from './support/until.js';

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

test('a listener whose server falls silent before it has heard LISTEN connects again', async () => {
  let connections = 0;
  // Lets everybody in, as PostgreSQL does (AuthenticationOk, ReadyForQuery), and says nothing more.
  const silent = createServer((socket) => {
    connections++;
    socket.on('error', () => undefined);
    socket.once('data', () => socket.write('R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I'));
  }).listen(0, '127.0.0.1');
  await once(silent, 'listening');
  const { port } = silent.address() as AddressInfo;
  const listener = new Listener({
    url: `postgresql://nobody@127.0.0.1:${port}/nothing`,
    channels: { news: () => undefined },
    onConnect: () => Promise.reject(new Error('It never listens.')),
  });
  listener.start();
  try {
    await until(() => connections === 2);
  } finally {
    await listener.stop();
    silent.close();
    await once(silent, 'close');
  }
});

test('a message that could not be worked off makes it begin again, and read what it missed', async () => {
  const { url, drop } = await createTestDatabase({ name: 'listener' });
  const teller = new pg.Client(url);
  await teller.connect();
  const heard: string[] = [];
  let connects = 0;
  const listener = new Listener({
    url,
    channels: {
      news: async (payload) => {
        heard.push(payload);
        if (payload === 'bad') throw new Error('the pool is empty');
      },
    },
    onConnect: async () => void connects++,
  });
  try {
    listener.start();
    await until(() => connects === 1);
    await teller.query(`notify news, 'bad'`);
    await until(() => connects === 2);
    await teller.query(`notify news, 'good'`);
    await until(() => heard.includes('good'));
    expect([heard, connects]).toEqual([['bad', 'good'], 2]);
  } finally {
    await listener.stop();
    await teller.end();
    await drop();
  }
});
