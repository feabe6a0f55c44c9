import { MINIMUM_MINOR } from '../../../install/settings.ts';
import { given, type Check } from '../facts.ts';

/** The API server is new enough. */
export const apiServer: Check = {
  name: 'api-server',
  judge: ({ server }) =>
    given(server, 'API server', ({ version }) => {
      const [, major, minor] = /^v?([1-9]\d*)\.(\d+)/.exec(version) ?? [];
      const where = 'API server';
      if (major === undefined) return [{ severity: 'unknown', where, what: `its version ${version} says nothing` }];
      if (Number(major) > 1 || Number(minor) >= MINIMUM_MINOR) {
        return [{ severity: 'ok', where, what: `Kubernetes ${version} has all that is needed` }];
      }
      return [
        {
          severity: 'problem',
          where,
          what: `Kubernetes ${version} is older than v1.${MINIMUM_MINOR}`,
          why: 'without match conditions it asks more than is needed, and break-glass cannot work',
          fix: 'upgrade the cluster',
        },
      ];
    }),
};
