import sys,time,numpy as np,torch
from torch import nn
sys.path.insert(0,'models')
from torch_models import MODELS
torch.set_num_threads(2)
d=np.load('models/data/digits.npz')
x,y,xt,yt=[torch.from_numpy(d[k]) for k in ('x','y','x_test','y_test')]
for opt,lr,B,E in [('adamw',1e-3,32,20),('adamw',2e-3,64,20),('sgd',0.05,64,20)]:
  accs=[]
  for s in range(5):
    torch.manual_seed(s)
    m=MODELS['digits_cnn'].build()
    o=torch.optim.AdamW(m.parameters(),lr=lr) if opt=='adamw' else torch.optim.SGD(m.parameters(),lr=lr,momentum=.9,weight_decay=5e-4)
    t=time.time(); curve=[]
    for e in range(E):
      m.train()
      p=torch.randperm(len(x))
      for i in range(0,len(x)-B+1,B):
        j=p[i:i+B]; l=nn.functional.cross_entropy(m(x[j]),y[j]); o.zero_grad(set_to_none=True); l.backward(); o.step()
      m.eval()
      with torch.no_grad(): curve.append(int((m(xt).argmax(1)==yt).sum()))
    accs.append(curve)
  print(opt,lr,B,E,[round(c[-1]/360*100,2) for c in accs],[c[4::5] for c in accs],time.time()-t,flush=True)
