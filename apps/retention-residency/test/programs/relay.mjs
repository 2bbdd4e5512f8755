// One relay of the outbox, from dist, until it is killed. Arguments: the urls of both roles, and of NATS.
import 'reflect-metadata';
import { NatsBus } from '../../dist/outbox/nats-bus.js';
import { OutboxRelay } from '../../dist/outbox/outbox-relay.js';
import { Database } from '../../dist/platform/database.js';
import { TimeAndIds } from '../../dist/platform/time-and-ids.js';
import { WorkerLoop } from '../../dist/platform/worker-loop.js';

const [app, platform, nats, replicas] = process.argv.slice(2);
const database = await Database.open({ urls: { app, platform }, pool: 1 });
const bus = new NatsBus({ url: nats, replicas: Number(replicas) });
const relay = new OutboxRelay(database, bus, new TimeAndIds());
new WorkerLoop({ name: 'relay', tick: () => relay.tick(), intervalMs: 20 }).start();
console.log('relaying');
