import { CONFIGURATION_NAME } from '../../../kube/well-known.ts';
import { evaluateFact, FIXES, info, ok, problem, warning, type Check } from '../facts.ts';
import { invalidReason } from '../gather.ts';

const OBJECT = `PortcullisConfiguration ${CONFIGURATION_NAME}`;

/** The policy settings are valid and in force. */
export const configuration: Check = {
  name: 'configuration',
  evaluate: ({ configuration: fact, namespace }) =>
    evaluateFact(fact, 'configuration', (object) => {
      if (!object) return [info(OBJECT, 'does not exist; the leader creates it')];
      const invalid = invalidReason(object.spec ?? {}, namespace);
      if (invalid !== undefined) return [problem(OBJECT, invalid, { impact: LAST_VALID, fix: FIXES.settings })];
      const { generation } = object.metadata ?? {};
      const failed = object.status?.conditions?.find(({ status }) => status === 'False');
      if (failed) {
        return [
          warning(OBJECT, `${failed.type} is False: ${failed.message}`, {
            impact: LAST_VALID,
            fix: failed.type === 'Accepted' ? FIXES.settings : FIXES.logs(namespace),
          }),
        ];
      }
      const overridden = object.status?.conditions?.find(({ reason }) => reason === 'InitialSettingsOverridden');
      return [
        ok(OBJECT, `generation ${generation ?? 0} is valid and in force`),
        ...(overridden ? [info(OBJECT, overridden.message)] : []),
      ];
    }),
};

const LAST_VALID =
  'replicas keep the last valid settings; a replica that starts with invalid settings does not become ready';
