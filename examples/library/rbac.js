import { createAuthorizer } from 'portcullis/rbac';

const rules = [{ verbs: ['use'], apiGroups: ['security.openshift.io'], resources: ['securitycontextconstraints'] }];
const allows = createAuthorizer({
  roles: [],
  roleBindings: [],
  clusterRoles: [{ metadata: { name: 'use-sccs' }, rules }],
  clusterRoleBindings: [
    { subjects: [{ kind: 'Group', name: 'admins' }], roleRef: { kind: 'ClusterRole', name: 'use-sccs' } },
  ],
});
const action = {
  verb: 'use',
  apiGroup: 'security.openshift.io',
  resource: 'securitycontextconstraints',
  name: 'anyuid',
};
console.log(allows({ username: 'alice', groups: ['admins'] }, action));
// true
