import { CONSUMED, ENVELOPE, PUBLISHED } from './event-catalog.js';

/** CloudEvents attributes, which every message of ours carries as headers. */
const HEADERS = {
  type: 'object',
  properties: {
    'ce-specversion': { type: 'string', const: '1.0' },
    'ce-id': { type: 'string', format: 'uuid', description: 'The same each time that the event is sent.' },
    'ce-source': { type: 'string' },
    'ce-type': { type: 'string', description: 'The topic.' },
    'ce-subject': { type: 'string', description: 'The id of the aggregate.' },
    'ce-time': { type: 'string', format: 'date-time' },
    'ce-partitionkey': { type: 'string', description: 'Events of one key arrive in order.' },
    'ce-sequence': { type: 'string', description: 'Grows within a partition key.' },
    'ce-datacontenttype': { type: 'string', const: 'application/json' },
  },
};

interface Described {
  readonly topic: string;
  readonly summary: string;
  readonly payload: object;
}

/** The AsyncAPI 3 document of what the service publishes and listens to. docs/asyncapi.json is a copy, which a test compares. */
export function asyncApi() {
  const published = Object.entries<Described>(PUBLISHED);
  const consumed = Object.entries<Described>(CONSUMED);
  return {
    asyncapi: '3.0.0',
    info: {
      title: 'Retention and residency',
      version: '1',
      description:
        'At least once, in order for each partition key. Carried by NATS JetStream, or within the process where no broker is configured.',
    },
    defaultContentType: 'application/json',
    channels: Object.fromEntries([...published, ...consumed].map(channelOf)),
    operations: Object.fromEntries([
      ...published.map((each) => operationOf(each, 'send')),
      ...consumed.map((each) => operationOf(each, 'receive')),
    ]),
    components: {
      messages: Object.fromEntries([
        ...published.map((each) => messageOf(each, true)),
        ...consumed.map((each) => messageOf(each, false)),
      ]),
    },
  };
}

function channelOf([type, { topic }]: [string, Described]): [string, object] {
  return [type, { address: topic, messages: { [type]: { $ref: `#/components/messages/${type}` } } }];
}

function operationOf([type, { summary }]: [string, Described], action: 'send' | 'receive'): [string, object] {
  const channel = { $ref: `#/channels/${type}` };
  return [
    `${action}${type}`,
    { action, channel, summary, messages: [{ $ref: `#/channels/${type}/messages/${type}` }] },
  ];
}

function messageOf([type, { summary, payload }]: [string, Described], isOurs: boolean): [string, object] {
  const properties = { ...ENVELOPE.properties, eventType: { type: 'string', const: type }, payload };
  return [
    type,
    { name: type, title: type, summary, ...(isOurs && { headers: HEADERS }), payload: { ...ENVELOPE, properties } },
  ];
}
