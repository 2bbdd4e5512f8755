// A process that does the handler work of session notes, writes each call down in the table handled, and stops for good at
// a point of its choice. Arguments: url, Cohort's schema, point, how often to pass the point before stopping, and a folder that
// stands for a blob store, with a file a note, in which three calls of ten fail.
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { RetentionRowDispatcher, RowHandler } from 'nestjs-cohort';
import { SessionNote, openHost, standAt } from './host.mjs';

const [, , url, schema, point, passes, folder] = process.argv;
let orm;

async function write(name, { recordId, snapshot }, fails) {
  await orm.em
    .getConnection()
    .execute('insert into handled(handler, record_id, fails) values (?, ?, ?)', [name, recordId, fails]);
  if (snapshot.body === undefined) throw new Error('no snapshot');
}
class First {
  onBefore({ body }, { snapshot }) {
    snapshot.body = body;
  }
  async onAfter(context) {
    const fails = context.snapshot.body === 'poison';
    await write('First', context, fails);
    if (fails) throw new Error('poison');
    if (folder === undefined) return;
    if (Math.random() < 0.3) throw new Error('poison');
    await rm(join(folder, context.recordId), { force: true });
  }
}
class Second {
  onAfter(context) {
    return write('Second', context, false);
  }
}
RowHandler(SessionNote, { priority: 1 })(First);
RowHandler(SessionNote, { priority: 2 })(Second);

const host = await openHost({
  url,
  schema,
  options: { rowHandlerDispatch: { maxAttempts: 40, baseBackoff: 1 } },
  providers: [new Second(), new First()],
  dispatchProbe: standAt(point, passes),
});
orm = host.orm;
const left = await new RetentionRowDispatcher(host.readiness).flush();
process.send(left);
await orm.close();
