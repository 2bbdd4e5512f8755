import { describeValue } from '../cohort.errors.js';
import type { AnonymiseFactory, AnonymiseFactoryClass } from '../domain/anonymise-factory.js';
import { Strategy } from '../domain/strategy.js';
import type { RetentionEntry } from '../registry/retention-entry.js';

const MODES = ['static', 'perRow', 'perRowWithOriginalValue'];

/**
 * The one instance of each factory class that an entity names. Whether it is there and is a factory matters only where a
 * category may anonymise; that it is registered once matters always, since nobody could say which of two was meant.
 */
export function resolveFactories(
  entries: readonly RetentionEntry[],
  strategiesOf: (category: string) => readonly Strategy[],
  find: (type: AnonymiseFactoryClass) => readonly unknown[],
  problems: string[],
): ReadonlyMap<AnonymiseFactoryClass, AnonymiseFactory> {
  const named = entries.flatMap((entry) =>
    entry.scrubs.flatMap((scrub) => ('factory' in scrub ? [{ entry, scrub, type: scrub.factory }] : [])),
  );
  const found = new Map<AnonymiseFactoryClass, AnonymiseFactory>();
  for (const { entry, scrub, type } of named) {
    const instances = find(type);
    const complain = (problem: string) =>
      problems.push(`${entry.entityName}: factory ${type.name} of '${scrub.column.property}' ${problem}`);
    if (instances.length > 1) complain(`is registered ${instances.length} times; register it once.`);
    if (!strategiesOf(entry.category).includes(Strategy.Anonymise)) continue;
    const [instance] = instances;
    if (instances.length === 0) complain('is not registered; make it a provider of a module, in the default scope.');
    else if (!isFactory(instance)) complain('has no method create; wanted: an AnonymiseFactory.');
    else if (!MODES.includes(instance.mode ?? 'static'))
      complain(`has mode ${describeValue(instance.mode)}; wanted: one of ${MODES.join(', ')}.`);
    else found.set(type, instance);
  }
  return found;
}

function isFactory(instance: unknown): instance is AnonymiseFactory {
  return typeof (instance as Partial<AnonymiseFactory> | null | undefined)?.create === 'function';
}
